// SPDX-License-Identifier: MIT
#include "core/attention_config.h"
#include "core/launch.h"
#include <swr/kernel.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

constexpr int round_up(int value, int granularity) {
  return ceil_div(value, granularity) * granularity;
}

}  // namespace

AttentionConfig make_attention_config(const AttentionProblem& problem, const Variant& variant) {
  return {.head_dim = problem.head_dim,
          .dtype = problem.dtype,
          .causal = problem.causal,
          .alignment_bytes = problem.alignment_bytes,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .warps = variant.warps,
          .stages = variant.stages,
          .order = variant.order,
          .persistence = variant.persistence,
          .smem_swizzle = variant.smem_swizzle};
}

int smem_bytes(const AttentionProblem& problem, const Variant& variant) {
  return make_attention_config(problem, variant).smem_bytes();
}

Occupancy occupancy(const KernelResources& resources, const AttentionProblem& problem,
                    const Variant& variant, const DeviceInfo& device) {
  constexpr int kRegisterUnitPerWarp = 256;
  constexpr int kSmemUnitBytes = 128;
  constexpr int kSchedulersPerSm = 4;
  const int warp_registers = round_up(resources.registers_per_thread * 32, kRegisterUnitPerWarp);
  const int cta_smem = round_up(smem_bytes(problem, variant) + resources.static_smem_bytes +
                                    device.smem_reserved_per_cta_bytes,
                                kSmemUnitBytes);
  const int warps = device.registers_per_sm / kSchedulersPerSm / warp_registers * kSchedulersPerSm;
  const std::array<Occupancy, 4> limits{{
      {warps / variant.warps, "registers"},
      {device.smem_per_sm_bytes / cta_smem, "shared memory"},
      {device.max_threads_per_sm / (variant.warps * 32), "threads"},
      {device.max_ctas_per_sm, "CTA slots"},
  }};
  return *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
    return a.ctas_per_sm < b.ctas_per_sm;
  });
}

LaunchPlan launch_plan(const AttentionProblem& problem, const Variant& variant, int sm_count,
                       int ctas_per_sm) {
  return {.tile_m = variant.tile_m,
          .threads = make_attention_config(problem, variant).threads(),
          .dynamic_smem_bytes = smem_bytes(problem, variant),
          .persistence = variant.persistence,
          .workers = variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm,
          .swizzle = variant.swizzle,
          .section_heads = variant.section_heads};
}

LaunchGeometry launch_geometry(const AttentionProblem& problem, const Variant& variant,
                               int sm_count, int ctas_per_sm) {
  return launch_geometry(launch_plan(problem, variant, sm_count, ctas_per_sm),
                         problem.batch * problem.heads_q, problem.seq_q);
}

}  // namespace swr
