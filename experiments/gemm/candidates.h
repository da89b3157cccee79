// SPDX-License-Identifier: MIT
// The variants of the Hopper GEMM family that the benchmark tries on a shape.
#pragma once

#include "templates/gemm/hopper/config.h"
#include <swr/gemm_problem.h>

#include <string>
#include <vector>

namespace swr {

/// A kernel and the choices made at its launch.
struct GemmCandidate {
  HopperGemmConfig config;
  Raster raster = Raster::along_n;
  int raster_group = 1;
  int swizzle_stride = 0;
  int splits = 1;
};

/// The `count` configurations whose estimated time is least, each with every raster that makes a
/// difference; at most a sixth are of one class (main loop, consumers,
/// cluster, persistence, tile_k). The estimate is
/// a roofline per wave of tiles: products, shared memory, L2 traffic and DRAM.
std::vector<GemmCandidate> gemm_candidates(const GemmProblem& problem, int sm_count, int count);

/// Short text that names a candidate in the output.
std::string candidate_name(const GemmCandidate& candidate);

}  // namespace swr
