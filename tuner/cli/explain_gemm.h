// SPDX-License-Identifier: MIT
// All that is known of one variant of GEMM, measured or predicted.
#pragma once

#include "core/json.h"
#include "operations/gemm/model/explanation.h"
#include "tuner/cli/commands.h"
#include <swr/result.h>

#include <iosfwd>
#include <string>

namespace swr::cli {

struct ExplainedGemm {
  GemmProblem problem;
  GpuProfile profile;
  GemmVariant variant;
  std::string chosen;  ///< Why this variant.
  GemmExplanation model;
  /// Measured where there is a measurement, else predicted.
  VariantResult result;
};

/// The variant that --variant names; else the best stored for exactly this problem and GPU; else
/// the best of the space by prediction.
/// Throws: Error{invalid_argument} for a variant that cannot run; what compiling throws.
ExplainedGemm explain_gemm(const Session& session, const GemmProblem& problem,
                           const GpuProfile& profile);

void print_explanation(std::ostream& out, const ExplainedGemm& all);

/// Every number of it.
Json explanation_json(const ExplainedGemm& all);

}  // namespace swr::cli
