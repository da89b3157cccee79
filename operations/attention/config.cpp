// SPDX-License-Identifier: MIT
#include "operations/attention/config.h"

#include "core/members.h"
#include "generator/config_text.h"
#include "operations/attention/parts.h"

namespace swr {
/// Without wgmma, of kernels that no variant has.
constexpr auto members_of(const PortableAttentionConfig& /*of*/) {
  using C = PortableAttentionConfig;
  return Members<&C::head_dim, &C::dtype, &C::causal, &C::alignment_bytes, &C::tile_m, &C::tile_n,
                 &C::warps, &C::stages, &C::order, &C::persistence, &C::smem_swizzle, &C::split_kv,
                 &C::pack_gqa, &C::kv_copy>();
}
/// Without kv_octets, of kernels that no variant has.
constexpr auto members_of(const HopperAttentionConfig& /*of*/) {
  using C = HopperAttentionConfig;
  return Members<&C::head_dim, &C::dtype, &C::causal, &C::tile_m, &C::tile_n, &C::stages,
                 &C::mainloop, &C::order, &C::persistence, &C::p_operand, &C::exp2_fma_eighths,
                 &C::unroll>();
}

PortableAttentionConfig make_attention_config(const AttentionProblem& problem,
                                              const AttentionVariant& variant) {
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
          .smem_swizzle = variant.smem_swizzle,
          .split_kv = variant.kv_splits > 1,
          .pack_gqa = variant.pack_gqa,
          .kv_copy = variant.kv_copy};
}

HopperAttentionConfig make_hopper_config(const AttentionProblem& problem,
                                         const AttentionVariant& variant) {
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

AttentionFamilyConfig make_family_config(const AttentionProblem& problem,
                                         const AttentionVariant& variant) {
  switch (variant.family) {
    case Family::portable:
      return make_attention_config(problem, variant);
    case Family::hopper:
      return make_hopper_config(problem, variant);
  }
  return {};
}

AttentionParams make_attention_params(const AttentionProblem& problem) {
  AttentionParams params;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.seq_q = problem.seq_q;
  params.seq_kv = problem.seq_kv;
  return params;
}

std::string config_header(const PortableAttentionConfig& config) {
  return config_header("attention/config.h", "PortableAttentionConfig", designated_members(config));
}

std::string config_header(const HopperAttentionConfig& config) {
  return config_header("attention/hopper/config.h", "HopperAttentionConfig",
                       designated_members(config));
}

std::string config_header_of(const AttentionProblem& problem, const AttentionVariant& variant) {
  return std::visit([](const auto& config) { return config_header(config); },
                    make_family_config(problem, variant));
}

int threads_per_cta(const AttentionFamilyConfig& config) {
  return std::visit([](const auto& one) { return one.threads(); }, config);
}

int smem_bytes(const AttentionFamilyConfig& config) {
  return std::visit([](const auto& one) { return one.smem_bytes(); }, config);
}

int smem_bytes_of(const AttentionProblem& problem, const AttentionVariant& variant) {
  return smem_bytes(make_family_config(problem, variant));
}

int threads_of(const AttentionProblem& problem, const AttentionVariant& variant) {
  return threads_per_cta(make_family_config(problem, variant));
}

AttentionLaunchPlan launch_plan(const AttentionProblem& problem, const AttentionVariant& variant,
                                int sm_count, int ctas_per_sm) {
  const AttentionFamilyConfig config = make_family_config(problem, variant);
  AttentionLaunchPlan plan{
      .tile_m = variant.tile_m,
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

LaunchGeometry geometry_of(const AttentionProblem& problem, const AttentionVariant& variant,
                           int sm_count, int ctas_per_sm) {
  return launch_geometry(launch_plan(problem, variant, sm_count, ctas_per_sm),
                         make_attention_params(problem));
}

}  // namespace swr
