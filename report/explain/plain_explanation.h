// SPDX-License-Identifier: MIT
// The explanation of an operation that brings none of its own: what is known of any kernel.
#pragma once

#include "report/explain/explanation.h"

#include <memory>

namespace swr {

/// Launch, shared memory, time and traffic by the operation's predictor, memory accesses, roofline
/// and words. Throws: Error{invalid_argument} when no CTA fits an SM, or when nothing is measured
/// and the operation has no predictor.
std::unique_ptr<ExplainedVariant> explain_plainly(const ExplainRequest& request);

}  // namespace swr
