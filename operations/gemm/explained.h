// SPDX-License-Identifier: MIT
// Explanations of GEMM.
#pragma once

#include "report/explain/explanation.h"

#include <memory>

namespace swr {

/// Throws: Error{invalid_argument} when no CTA fits an SM.
std::unique_ptr<ExplainedVariant> explain_gemm(const ExplainRequest& request);

}  // namespace swr
