// SPDX-License-Identifier: MIT
// What the comparison kernels report to the host.
#pragma once

namespace swr::reference {

/// Zero before the kernels run. NaN travels through every field.
struct Comparison {
  double error_squared = 0.0;      ///< Sum of (output - reference)^2.
  double reference_squared = 0.0;  ///< Sum of reference^2.
  /// Largest relative L2 error of one row of O.
  double worst_row_error = 0.0;
  /// Largest |lse - reference| / max(1, |reference|); infinite when only one of them is finite.
  double worst_lse_error = 0.0;
  /// 16-bit words outside the outputs that the kernel under test wrote to.
  unsigned long long disturbed_words = 0;
};

}  // namespace swr::reference
