// SPDX-License-Identifier: MIT
#include "core/attention_config.h"
#include "core/gemm_config.h"
#include "core/launch.h"
#include "core/operation.h"
#include <swr/kernel.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

constexpr int round_up(int value, int granularity) {
  return ceil_div(value, granularity) * granularity;
}

/// What the variant's family is compiled for.
template <typename Action>
auto visit_config(const AttentionProblem& problem, const AttentionVariant& variant,
                  Action&& action) {
  return std::visit(action, make_family_config(problem, variant));
}
template <typename Action>
auto visit_config(const GemmProblem& problem, const GemmVariant& variant, Action&& action) {
  return std::visit(action, make_gemm_config(problem, variant));
}

/// A kernel that combines splits serves any number of them from two on, here and below.
AttentionVariant without_launch_choices(AttentionVariant variant) {
  const AttentionVariant usual;
  variant.workers = usual.workers;
  variant.swizzle = usual.swizzle;
  variant.section_heads = usual.section_heads;
  variant.longest_first = usual.longest_first;
  variant.kv_splits = std::min(variant.kv_splits, 2);
  return variant;
}

GemmVariant without_launch_choices(GemmVariant variant) {
  const GemmVariant usual;
  variant.workers = usual.workers;
  variant.splits = std::min(variant.splits, 2);
  variant.raster = usual.raster;
  variant.raster_group = usual.raster_group;
  variant.swizzle_stride = usual.swizzle_stride;
  return variant;
}

LaunchGeometry geometry(const AttentionProblem& problem, const AttentionVariant& variant,
                        int sm_count, int ctas_per_sm) {
  return launch_geometry(launch_plan(problem, variant, sm_count, ctas_per_sm),
                         make_attention_params(problem));
}

LaunchGeometry geometry(const GemmProblem& problem, const GemmVariant& variant, int sm_count,
                        int ctas_per_sm) {
  return visit_config(problem, variant, [&](const auto& config) {
    const GemmSchedule schedule = config.schedule(make_gemm_params(problem, variant));
    const int workers = worker_count(variant, sm_count, ctas_per_sm);
    return LaunchGeometry{
        .grid_x = static_cast<int>(schedule.clusters(workers) * schedule.ctas_per_cluster()),
        .block_x = config.threads(),
        .dynamic_smem_bytes = config.smem_bytes(),
        .section_heads = 1,
        .partials_bytes = 0,
        .arrival_words = 0};
  });
}

}  // namespace

Variant kernel_of(const Variant& variant) {
  return std::visit([](const auto& one) -> Variant { return without_launch_choices(one); },
                    variant);
}

int threads_per_cta(const AttentionFamilyConfig& config) {
  return std::visit([](const auto& one) { return one.threads(); }, config);
}

int smem_bytes(const AttentionFamilyConfig& config) {
  return std::visit([](const auto& one) { return one.smem_bytes(); }, config);
}

int smem_bytes(const Problem& problem, const Variant& variant) {
  return visit_operation(problem, variant, [](const auto& one, const auto& chosen) {
    return visit_config(one, chosen, [](const auto& config) { return config.smem_bytes(); });
  });
}

int threads_per_cta(const Problem& problem, const Variant& variant) {
  return visit_operation(problem, variant, [](const auto& one, const auto& chosen) {
    return visit_config(one, chosen, [](const auto& config) { return config.threads(); });
  });
}

int worker_count(const GemmVariant& variant, int sm_count, int ctas_per_sm) {
  return variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm;
}

Occupancy occupancy(const KernelResources& resources, const Problem& problem,
                    const Variant& variant, const DeviceInfo& device) {
  constexpr int kRegisterUnitPerWarp = 256;
  constexpr int kSmemUnitBytes = 128;
  constexpr int kSchedulersPerSm = 4;
  const int threads = threads_per_cta(problem, variant);
  const int warp_registers = round_up(resources.registers_per_thread * 32, kRegisterUnitPerWarp);
  const int cta_smem = round_up(smem_bytes(problem, variant) + resources.static_smem_bytes +
                                    device.smem_reserved_per_cta_bytes,
                                kSmemUnitBytes);
  const int warps = device.registers_per_sm / kSchedulersPerSm / warp_registers * kSchedulersPerSm;
  const std::array<Occupancy, 4> limits{{
      {warps / (threads / 32), "registers"},
      {device.smem_per_sm_bytes / cta_smem, "shared memory"},
      {device.max_threads_per_sm / threads, "threads"},
      {device.max_ctas_per_sm, "CTA slots"},
  }};
  return *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
    return a.ctas_per_sm < b.ctas_per_sm;
  });
}

AttentionLaunchPlan launch_plan(const AttentionProblem& problem, const AttentionVariant& variant,
                       int sm_count, int ctas_per_sm) {
  const AttentionFamilyConfig config = make_family_config(problem, variant);
  AttentionLaunchPlan plan{.tile_m = variant.tile_m,
                  .tile_n = variant.tile_n,
                  .threads = threads_per_cta(config),
                  .dynamic_smem_bytes = smem_bytes(config),
                  .persistence = variant.persistence,
                  .workers = variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm,
                  .swizzle = variant.swizzle,
                  .section_heads = variant.section_heads,
                  .kv_splits = variant.kv_splits,
                  .pack_gqa = variant.pack_gqa,
                  .longest_first = variant.longest_first,
                  .dtype = problem.dtype,
                  .head_dim = problem.head_dim,
                  .sm_count = sm_count,
                  .ctas_per_sm = ctas_per_sm};
  plan.kv_box = std::visit([](const auto& one) { return one.kv_box(); }, config);
  if (const auto* hopper = std::get_if<HopperAttentionConfig>(&config)) {
    plan.q_box = hopper->q_box();
  }
  return plan;
}

LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                               int ctas_per_sm) {
  return visit_operation(problem, variant, [&](const auto& one, const auto& chosen) {
    return geometry(one, chosen, sm_count, ctas_per_sm);
  });
}

}  // namespace swr
