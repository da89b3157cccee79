// SPDX-License-Identifier: MIT
// What the comparison of two results of GEMM reports to the host.
#pragma once

namespace swr::reference {

/// Zero before the kernel runs. NaN travels through the sums and counts as different.
struct GemmComparison {
  double error_squared = 0.0;       ///< Sum of (C - expected)^2.
  double expected_squared = 0.0;    ///< Sum of expected^2.
  double different_elements = 0.0;  ///< C is not `expected` rounded to the type of C.
};

}  // namespace swr::reference
