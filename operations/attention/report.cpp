// SPDX-License-Identifier: MIT
// Attention's variants in words.
#include "core/members.h"
#include "operations/attention/config.h"
#include "operations/attention/parts.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <string>

namespace swr {

// Attention in exported packages.

/// Made by swr_embed_files.
std::span<const EmbeddedFile> attention_package_templates();

constexpr auto members_of(const TensorBox& /*of*/) {
  using C = TensorBox;
  return all_members<C, &C::columns, &C::rows, &C::swizzle_bytes>();
}
constexpr auto members_of(const AttentionLaunchPlan& /*of*/) {
  using C = AttentionLaunchPlan;
  return all_members<C, &C::tile_m, &C::tile_n, &C::threads, &C::dynamic_smem_bytes,
                     &C::persistence, &C::workers, &C::swizzle, &C::section_heads, &C::kv_splits,
                     &C::pack_gqa, &C::longest_first, &C::dtype, &C::head_dim, &C::sm_count,
                     &C::ctas_per_sm, &C::q_box, &C::kv_box>();
}
constexpr auto members_of(const AttentionProblem& /*of*/) {
  using C = AttentionProblem;
  return all_members<C, &C::batch, &C::heads_q, &C::heads_kv, &C::seq_q, &C::seq_kv, &C::head_dim,
                     &C::dtype, &C::causal, &C::alignment_bytes>();
}

const PackagePart& attention_package_part() {
  static constexpr PackagePart part{"attention", "Attention", attention_package_templates};
  return part;
}

std::string attention_package_row(const PackagedKernel& kernel) {
  const auto& problem = kernel.problem.as<AttentionProblem>();
  const auto& variant = kernel.variant.as<AttentionVariant>();
  const AttentionLaunchPlan plan =
      launch_plan(problem, variant, kernel.sm_count, kernel.ctas_per_sm);
  const bool fills_device = is_persistent(variant.persistence) && variant.workers == 0;
  return cpp_text(problem) + ",\n     " + cpp_text(plan) + ", " + cpp_text(fills_device);
}

std::string tile_sizes_text(const AttentionVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n);
}

namespace {

std::string brief(const AttentionVariant& variant) {
  return tile_text_of(variant) + " stages " + std::to_string(variant.stages);
}

/// The choices for a few query rows.
std::string decode_text(const AttentionVariant& variant) {
  return (variant.kv_splits > 1 ? " splits " + std::to_string(variant.kv_splits) : "") +
         (variant.pack_gqa ? " packed heads" : "");
}

}  // namespace

std::string tile_text_of(const AttentionVariant& variant) {
  return tile_sizes_text(variant) + "x" + std::to_string(variant.warps);
}

/// The choices that only the Hopper family has.
std::string hopper_text(const AttentionVariant& variant) {
  std::string text(to_string(variant.mainloop));
  text += variant.p_operand == POperand::shared ? ", P shared" : "";
  text += variant.exp2_fma_eighths > 0
              ? ", " + std::to_string(variant.exp2_fma_eighths) + "/8 exp2 by fma"
              : "";
  text += variant.unroll > 1 ? ", unroll " + std::to_string(variant.unroll) : "";
  return text;
}

std::string persistence_text(const AttentionVariant& variant) {
  const std::string workers = variant.workers > 0 ? "/" + std::to_string(variant.workers) : "";
  return std::string(to_string(variant.persistence)) + workers;
}

std::string swizzle_text(const AttentionVariant& variant) {
  const std::string section =
      variant.section_heads > 0 ? "/" + std::to_string(variant.section_heads) : "";
  return std::string(to_string(variant.swizzle)) + section;
}

/// Which tile a CTA computes, in words.
std::string mapping_text(const AttentionVariant& variant) {
  return swizzle_text(variant) + (variant.longest_first ? ", longest first" : "");
}

std::string description_without_order_of(const AttentionVariant& variant) {
  return brief(variant) + " " + persistence_text(variant) + " " + mapping_text(variant) +
         decode_text(variant);
}

std::string description_of(const AttentionVariant& variant) {
  return brief(variant) + " " + std::string(to_string(variant.order)) + " " +
         persistence_text(variant) + " " + mapping_text(variant) + decode_text(variant) +
         (variant.smem_swizzle ? "" : " plain shared memory rows") +
         (variant.kv_copy == KvCopy::cp_async ? ""
                                              : " " + std::string(to_string(variant.kv_copy))) +
         (variant.family == Family::hopper ? " hopper " + hopper_text(variant) : "");
}

std::string conflict_advice_of(const AttentionVariant& variant) {
  if (variant.family == Family::hopper) {
    return variant.p_operand == POperand::shared
               ? "--p-operand registers keeps P out of shared memory"
               : "the layout is the one that TMA and wgmma share; another --tile moves what is "
                 "left";
  }
  return variant.smem_swizzle ? "rows are swizzled already; another --tile or --stages moves what "
                                "is left"
                              : "--smem-swizzle on spreads the rows over all banks";
}

const Advice& attention_advice() {
  static constexpr Advice advice{
      .more_ctas = "fewer rows of Q per tile make more CTAs",
      .fuller_waves = "try --persistence persistent,snake or fewer rows of Q per tile",
      .hopper =
          "try other main loops (--mainloop), exponentials on the FMA pipe (--exp2-fma-eighths) "
          "and tiles; softmax and products share the issue slots",
      .fewer_passes =
          "more rows of Q per tile, or --swizzle head_sections where there are several heads, make "
          "fewer passes over K and V",
      .fewer_misses =
          "try --order sawtooth with --persistence persistent, more rows of Q per tile, or "
          "--swizzle "
          "head_sections where there are several heads",
      .fuller_sectors =
          "rows that are multiples of 32 bytes fill sectors; --kv-copy tma asks for whole boxes",
      .splits_option = "--kv-splits"};
  return advice;
}

}  // namespace swr
