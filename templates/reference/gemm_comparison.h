// SPDX-License-Identifier: MIT
// What the reference of GEMM takes from the host, and what its comparison reports.
#pragma once

#include <swr/axes.h>
#include <swr/gemm_axes.h>

namespace swr::reference {

/// What the reference computes, beside its parameters: the members of a problem.
struct GemmReference {
  DType dtype = DType::bf16;
  OutputType output = OutputType::bf16;
  GemmLayout layout = GemmLayout::nt;
  Scaling scaling = Scaling::none;
  Activation activation = Activation::none;
  Scaling output_scaling = Scaling::none;
  bool has_bias = false;
  bool gated = false;
};

/// Zero before the kernel runs. NaN travels through the sums and counts as different.
struct GemmComparison {
  double error_squared = 0.0;       ///< Sum of (C - expected)^2.
  double expected_squared = 0.0;    ///< Sum of expected^2.
  double different_elements = 0.0;  ///< C is not `expected` rounded to the type of C.
};

}  // namespace swr::reference
