// SPDX-License-Identifier: MIT
// When an output counts as right. Pure arithmetic on what the comparison kernels found.
#pragma once

#include "templates/reference/comparison.h"
#include <swr/axes.h>

#include <string>

namespace swr {

struct Verdict {
  /// ||out - reference|| / ||reference|| over all of O; infinite when an element is NaN.
  double relative_error = 0.0;
  /// What is wrong; empty when the output is right.
  std::string failure;
};

/// Largest relative L2 error over all of O: 2e-3 for fp16, 1e-2 for bf16.
double error_tolerance(DType dtype);

Verdict judge(const reference::Comparison& comparison, DType dtype);

}  // namespace swr
