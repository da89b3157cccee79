// SPDX-License-Identifier: MIT
// Which variant explain speaks of.
#pragma once

#include "report/explain/explanation.h"
#include "tuner/cli/commands.h"

namespace swr::cli {

/// The variant of --variant, else the best stored for this problem and device, else the best of the
/// whole space by prediction.
/// Throws: Error{invalid_argument} for a variant that breaks a constraint.
ExplainSubject choose_subject(const Session& session, const Problem& problem,
                              const GpuProfile& profile);

}  // namespace swr::cli
