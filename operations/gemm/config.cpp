// SPDX-License-Identifier: MIT
#include "operations/gemm/config.h"

#include "generator/config_text.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

/// Every field of the configuration. The structured binding stops the build when a field is added
/// to HopperGemmConfig and forgotten here.
std::string config_fields(const HopperGemmConfig& config) {
  const auto& [dtype, output, layout, reads_c, tile_m, tile_n, tile_k, stages, mainloop, consumers,
               cluster_m, cluster_n, cluster_k, persistence, k_order, split_k, scaling,
               promote_every, has_bias, activation, gated, output_scaling, groups] = config;
  return config_field("dtype", config_text("DType", dtype)) +
         config_field("output", config_text("OutputType", output)) +
         config_field("layout", config_text("GemmLayout", layout)) +
         config_field("reads_c", config_text(reads_c)) +
         config_field("tile_m", config_text(tile_m)) + config_field("tile_n", config_text(tile_n)) +
         config_field("tile_k", config_text(tile_k)) + config_field("stages", config_text(stages)) +
         config_field("mainloop", config_text("GemmMainloop", mainloop)) +
         config_field("consumers", config_text(consumers)) +
         config_field("cluster_m", config_text(cluster_m)) +
         config_field("cluster_n", config_text(cluster_n)) +
         config_field("cluster_k", config_text(cluster_k)) +
         config_field("persistence", config_text("Persistence", persistence)) +
         config_field("k_order", config_text("Order", k_order)) +
         config_field("split_k", config_text(split_k)) +
         config_field("scaling", config_text("Scaling", scaling)) +
         config_field("promote_every", config_text(promote_every)) +
         config_field("has_bias", config_text(has_bias)) +
         config_field("activation", config_text("Activation", activation)) +
         config_field("gated", config_text(gated)) +
         config_field("output_scaling", config_text("Scaling", output_scaling)) +
         config_field("groups", config_text("GemmGroups", groups));
}

/// The same for the portable family.
std::string config_fields(const PortableGemmConfig& config) {
  const auto& [dtype, output, layout, reads_c, alignment_bytes, tile_m, tile_n, tile_k, warps_m,
               warps_n, stages, persistence, k_order, split_k, scaling, promote_every, has_bias,
               activation, gated, output_scaling, groups] = config;
  return config_field("dtype", config_text("DType", dtype)) +
         config_field("output", config_text("OutputType", output)) +
         config_field("layout", config_text("GemmLayout", layout)) +
         config_field("reads_c", config_text(reads_c)) +
         config_field("alignment_bytes", config_text(alignment_bytes)) +
         config_field("tile_m", config_text(tile_m)) + config_field("tile_n", config_text(tile_n)) +
         config_field("tile_k", config_text(tile_k)) +
         config_field("warps_m", config_text(warps_m)) +
         config_field("warps_n", config_text(warps_n)) +
         config_field("stages", config_text(stages)) +
         config_field("persistence", config_text("Persistence", persistence)) +
         config_field("k_order", config_text("Order", k_order)) +
         config_field("split_k", config_text(split_k)) +
         config_field("scaling", config_text("Scaling", scaling)) +
         config_field("promote_every", config_text(promote_every)) +
         config_field("has_bias", config_text(has_bias)) +
         config_field("activation", config_text("Activation", activation)) +
         config_field("gated", config_text(gated)) +
         config_field("output_scaling", config_text("Scaling", output_scaling)) +
         config_field("groups", config_text("GemmGroups", groups));
}

}  // namespace

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
          .groups = problem.groups};
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
  return config_header("gemm/hopper/config.h", "HopperGemmConfig", config_fields(config));
}

std::string config_header(const PortableGemmConfig& config) {
  return config_header("gemm/portable/config.h", "PortableGemmConfig", config_fields(config));
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
