// SPDX-License-Identifier: MIT
#include "operations/gemm/config.h"

namespace swr {

HopperGemmConfig make_hopper_gemm_config(const GemmProblem& problem, const GemmVariant& variant) {
  return {.dtype = problem.dtype,
          .output = problem.output,
          .layout = problem.layout,
          .reads_c = problem.reads_c,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .tile_k = variant.tile_k,
          .stages = variant.stages,
          .mainloop = variant.mainloop,
          .consumers = variant.consumers,
          .cluster_m = variant.cluster_m,
          .cluster_n = variant.cluster_n,
          .cluster_k = variant.cluster_k,
          .persistence = variant.persistence,
          .k_order = variant.k_order,
          .split_k = variant.splits > 1};
}

PortableGemmConfig make_portable_gemm_config(const GemmProblem& problem,
                                             const GemmVariant& variant) {
  return {.dtype = problem.dtype,
          .output = problem.output,
          .layout = problem.layout,
          .reads_c = problem.reads_c,
          .alignment_bytes = problem.alignment_bytes,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .tile_k = variant.tile_k,
          .warps_m = variant.warps_m,
          .warps_n = variant.warps_n,
          .stages = variant.stages,
          .persistence = variant.persistence,
          .k_order = variant.k_order,
          .split_k = variant.splits > 1};
}

GemmFamilyConfig make_gemm_config(const GemmProblem& problem, const GemmVariant& variant) {
  if (variant.family == Family::hopper) {
    return make_hopper_gemm_config(problem, variant);
  }
  return make_portable_gemm_config(problem, variant);
}

GemmParams make_gemm_params(const GemmProblem& problem, const GemmVariant& variant) {
  GemmParams params;
  params.m = problem.m;
  params.n = problem.n;
  params.k = problem.k;
  params.batch = problem.batch;
  params.raster = variant.raster;
  params.raster_group = variant.raster_group;
  params.swizzle_stride = variant.swizzle_stride;
  params.splits = variant.splits;
  return params;
}

}  // namespace swr
