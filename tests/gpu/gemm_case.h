// SPDX-License-Identifier: MIT
// One GEMM kernel on one problem against the reference. Shapes are small, so that the programs also
// run under compute-sanitizer.
#pragma once

#include "operations/gemm/buffers.h"
#include "operations/gemm/config.h"
#include "operations/gemm/gemm_fit.h"
#include "operations/gemm/kernel.h"
#include "tests/gpu/gpu_test.h"
#include <swr/gemm_problem.h>

#include <ostream>
#include <string>
#include <vector>

namespace swr {

struct GemmCase {
  std::string name;
  GemmProblem problem;
  GemmKernel::Config config;
  Raster raster = Raster::along_n;
  int raster_group = 1;
  int swizzle_stride = 0;
  int splits = 1;
  int workers = 5;
  float alpha = 1.0F;
  float beta = 0.0F;
  std::vector<int> counts;  ///< Rows per group.
};

/// A case whose configuration takes over what the problem says about it.
template <typename Config>
GemmCase fitted(const std::string& name, const GemmProblem& problem, Config config) {
  config.dtype = problem.dtype;
  config.output = problem.output;
  config.layout = problem.layout;
  config.reads_c = problem.reads_c;
  config.scaling = problem.scaling;
  config.has_bias = problem.has_bias;
  config.activation = problem.activation;
  config.gated = problem.gated;
  config.output_scaling = problem.output_scaling;
  config.groups = problem.groups;
  config.alignment_bytes = problem.alignment_bytes;
  if constexpr (Config::kTakesMaps) {
    config.alignment_bytes =
        row_alignment_bytes(problem.n, output_bytes(problem.output), problem.alignment_bytes);
  }
  GemmCase given;
  given.name = name;
  given.problem = problem;
  given.config = config;
  return given;
}

/// How GoogleTest shows the parameter.
[[maybe_unused]] inline void PrintTo(const GemmCase& given, std::ostream* stream) {
  *stream << to_string(given.problem);
}

inline std::string gemm_case_name(const ::testing::TestParamInfo<GemmCase>& given) {
  return given.param.name;
}

class GemmTest : public GpuTest, public ::testing::WithParamInterface<GemmCase> {
 protected:
  /// Exact on 0/1 data, within the rounding of C on random data, twice in a row and bit for bit the
  /// same; nothing outside of C is written.
  static void expect_match(const GemmCase& given);
};

}  // namespace swr
