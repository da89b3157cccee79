// SPDX-License-Identifier: MIT
// When an output counts as right. Pure arithmetic on what the comparison kernels found.
#pragma once

#include "templates/reference/comparison.h"
#include "templates/reference/gemm_comparison.h"
#include <swr/axes.h>
#include <swr/gemm_axes.h>

#include <string>

namespace swr {

struct Verdict {
  /// ||out - reference|| / ||reference|| over the whole output; infinite when an element is NaN.
  double relative_error = 0.0;
  /// What is wrong; empty when the output is right.
  std::string failure;
};

/// Largest relative L2 error over all of O: 2e-3 for fp16, 1e-2 for bf16.
double error_tolerance(DType dtype);

Verdict judge(const reference::Comparison& comparison, DType dtype);

/// Of a gradient that attention backward computes. P, dS and O are rounded on the way, each by half
/// a unit, so it is somewhat less exact: 1.6e-3 of fp16, 1.2e-2 of bf16. The comparison's reference
/// holds what a rounded O leaves too, which stays where a gradient cancels.
Verdict judge_gradient(const reference::Comparison& comparison, DType dtype);

/// Largest relative L2 error of C on random data. Rounding to 8 (11) bits of significand leaves
/// about 1.7e-3 (2.1e-4), to the 4 of e4m3 2.6e-2; fp32 sums of tensor cores are a little less
/// exact than fp32 itself.
double error_tolerance(OutputType output);

/// `disturbed_words` counts what was written outside of C.
Verdict judge(const reference::GemmComparison& comparison, double tolerance,
              unsigned long long disturbed_words);

/// Where the comparison itself has judged every element: none may differ.
Verdict judge_elements(const reference::GemmComparison& comparison,
                       unsigned long long disturbed_words);

/// On data whose products are exact, no element may differ.
Verdict judge_exact(const reference::GemmComparison& comparison,
                    unsigned long long disturbed_words);

}  // namespace swr
