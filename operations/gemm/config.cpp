// SPDX-License-Identifier: MIT
#include "operations/gemm/config.h"

#include "generator/config_text.h"
#include "operations/gemm/gemm_fit.h"
#include "operations/gemm/parts.h"

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
          .split_k = variant.splits > 1,
          .scaling = problem.scaling,
          .promote_every = variant.promote_every,
          .has_bias = problem.has_bias,
          .activation = problem.activation,
          .gated = problem.gated,
          .output_scaling = problem.output_scaling,
          .groups = problem.groups,
          .alignment_bytes = row_alignment_bytes(problem.n, output_bytes(problem.output),
                                                 problem.alignment_bytes)};
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
          .split_k = variant.splits > 1,
          .scaling = problem.scaling,
          .promote_every = variant.promote_every,
          .has_bias = problem.has_bias,
          .activation = problem.activation,
          .gated = problem.gated,
          .output_scaling = problem.output_scaling,
          .groups = problem.groups};
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

int worker_count(const GemmVariant& variant, int sm_count, int ctas_per_sm) {
  return variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm;
}

std::string config_header(const HopperGemmConfig& config) {
  return config_header("gemm/hopper/config.h", "HopperGemmConfig", designated_members(config));
}

std::string config_header(const PortableGemmConfig& config) {
  return config_header("gemm/portable/config.h", "PortableGemmConfig", designated_members(config));
}

std::string config_header_of(const GemmProblem& problem, const GemmVariant& variant) {
  return std::visit([](const auto& config) { return config_header(config); },
                    make_gemm_config(problem, variant));
}

int smem_bytes_of(const GemmProblem& problem, const GemmVariant& variant) {
  return std::visit([](const auto& config) { return config.smem_bytes(); },
                    make_gemm_config(problem, variant));
}

int threads_of(const GemmProblem& problem, const GemmVariant& variant) {
  return std::visit([](const auto& config) { return config.threads(); },
                    make_gemm_config(problem, variant));
}

LaunchGeometry geometry_of(const GemmProblem& problem, const GemmVariant& variant, int sm_count,
                           int ctas_per_sm) {
  return std::visit(
      [&](const auto& config) {
        const GemmSchedule schedule = config.schedule(make_gemm_params(problem, variant));
        const int workers = worker_count(variant, sm_count, ctas_per_sm);
        return LaunchGeometry{
            .grid_x = static_cast<int>(schedule.clusters(workers) * schedule.ctas_per_cluster()),
            .block_x = config.threads(),
            .dynamic_smem_bytes = config.smem_bytes(),
            .section_heads = 1,
            .partials_bytes = 0,
            .arrival_words = 0};
      },
      make_gemm_config(problem, variant));
}

}  // namespace swr
