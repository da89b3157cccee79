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

HopperConfig make_hopper_config(const AttentionProblem& problem, const Variant& variant) {
  return {.head_dim = problem.head_dim,
          .dtype = problem.dtype,
          .causal = problem.causal,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .stages = variant.stages,
          .mainloop = variant.mainloop,
          .order = variant.order,
          .persistence = variant.persistence,
          .p_operand = variant.p_operand,
          .exp2_fma_eighths = variant.exp2_fma_eighths,
          .unroll = variant.unroll};
}

FamilyConfig make_family_config(const AttentionProblem& problem, const Variant& variant) {
  switch (variant.family) {
    case Family::portable:
      return make_attention_config(problem, variant);
    case Family::hopper:
      return make_hopper_config(problem, variant);
  }
  return {};
}

int threads_per_cta(const FamilyConfig& config) {
  return std::visit([](const auto& one) { return one.threads(); }, config);
}

int smem_bytes(const FamilyConfig& config) {
  return std::visit([](const auto& one) { return one.smem_bytes(); }, config);
}

int smem_bytes(const AttentionProblem& problem, const Variant& variant) {
  return smem_bytes(make_family_config(problem, variant));
}

Occupancy occupancy(const KernelResources& resources, const AttentionProblem& problem,
                    const Variant& variant, const DeviceInfo& device) {
  constexpr int kRegisterUnitPerWarp = 256;
  constexpr int kSmemUnitBytes = 128;
  constexpr int kSchedulersPerSm = 4;
  const FamilyConfig config = make_family_config(problem, variant);
  const int threads = threads_per_cta(config);
  const int warp_registers = round_up(resources.registers_per_thread * 32, kRegisterUnitPerWarp);
  const int cta_smem = round_up(
      smem_bytes(config) + resources.static_smem_bytes + device.smem_reserved_per_cta_bytes,
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

LaunchPlan launch_plan(const AttentionProblem& problem, const Variant& variant, int sm_count,
                       int ctas_per_sm) {
  const FamilyConfig config = make_family_config(problem, variant);
  LaunchPlan plan{.tile_m = variant.tile_m,
                  .threads = threads_per_cta(config),
                  .dynamic_smem_bytes = smem_bytes(config),
                  .persistence = variant.persistence,
                  .workers = variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm,
                  .swizzle = variant.swizzle,
                  .section_heads = variant.section_heads,
                  .dtype = problem.dtype,
                  .head_dim = problem.head_dim};
  if (const auto* hopper = std::get_if<HopperConfig>(&config)) {
    plan.q_box = hopper->q_box();
    plan.kv_box = hopper->kv_box();
  }
  return plan;
}

LaunchGeometry launch_geometry(const AttentionProblem& problem, const Variant& variant,
                               int sm_count, int ctas_per_sm) {
  return launch_geometry(launch_plan(problem, variant, sm_count, ctas_per_sm),
                         problem.batch * problem.heads_q, problem.seq_q);
}

}  // namespace swr
