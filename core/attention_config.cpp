// SPDX-License-Identifier: MIT
#include "core/attention_config.h"

namespace swr {

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

HopperAttentionConfig make_hopper_config(const AttentionProblem& problem, const AttentionVariant& variant) {
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

AttentionFamilyConfig make_family_config(const AttentionProblem& problem, const AttentionVariant& variant) {
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

}  // namespace swr
