// SPDX-License-Identifier: MIT
// Attention in exported packages.
#include "core/members.h"
#include "operations/attention/config.h"
#include "operations/attention/parts.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {

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

}  // namespace swr
