// SPDX-License-Identifier: MIT
// A small kernel for tests of what follows from specs.
#pragma once

#include "tests/support/temp_directory.h"
#include <swr/kernel_spec.h>

#include <string>

namespace swr::test {

inline constexpr const char* kScaleSource =
    "extern \"C\" __global__ void scale(float* y, const float* x, float factor, int n) {\n"
    "  const int i = blockIdx.x * block_size_x + threadIdx.x;\n"
    "  if (i < n) y[i] = factor * x[i];\n"
    "}\n";

/// y = 3 x, with a parameter of each kind.
inline KernelSpec scale_spec(const std::string& name = "scale") {
  KernelSpec spec{.name = name,
                  .source_file = "scale.cu",
                  .source = kScaleSource,
                  .sizes = {{"n", 1000}},
                  .parameters = {{"block_size_x", {"32", "64", "128", "2048"}, "64"},
                                 {"mode", {"fast", "slow"}},
                                 {"split", {"1", "2"}, {}, ParameterUse::launch}},
                  .constraints = {"mode == 'fast' or block_size_x <= 64"}};
  spec.arguments = {{.name = "y", .type = "float*", .size = "n", .is_output = true},
                    {.name = "x", .type = "const float*", .size = "n", .fill = KernelFill::random},
                    {.name = "factor", .type = "float", .value = "3"},
                    {.name = "n", .type = "int", .value = "n"}};
  spec.steps = {
      {.entry = "scale", .block = {"block_size_x"}, .grid = {"div_ceil(n, block_size_x)"}}};
  spec.flops = "n";
  spec.bytes = "8 * n";
  return spec;
}

}  // namespace swr::test
