// SPDX-License-Identifier: MIT
// Attention in exported packages.
#include "operations/attention/package.h"

#include "operations/attention/launch.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> attention_package_templates();

namespace {

std::string box_text(const TensorBox& box) {
  return package_list(
      {std::to_string(box.columns), std::to_string(box.rows), std::to_string(box.swizzle_bytes)});
}

/// Every member in its order.
std::string plan_text(const AttentionLaunchPlan& plan) {
  static_assert(sizeof(AttentionLaunchPlan) == 20 * sizeof(int),
                "a new member is to be written here");
  return package_list(
      {std::to_string(plan.tile_m), std::to_string(plan.tile_n), std::to_string(plan.threads),
       std::to_string(plan.dynamic_smem_bytes), package_enumerator("Persistence", plan.persistence),
       std::to_string(plan.workers), package_enumerator("AttentionSwizzle", plan.swizzle),
       std::to_string(plan.section_heads), std::to_string(plan.kv_splits),
       package_truth(plan.pack_gqa), package_truth(plan.longest_first),
       package_enumerator("DType", plan.dtype), std::to_string(plan.head_dim),
       std::to_string(plan.sm_count), std::to_string(plan.ctas_per_sm), box_text(plan.q_box),
       box_text(plan.kv_box)});
}

std::string problem_text(const AttentionProblem& p) {
  return package_list({std::to_string(p.batch), std::to_string(p.heads_q),
                       std::to_string(p.heads_kv), std::to_string(p.seq_q),
                       std::to_string(p.seq_kv), std::to_string(p.head_dim),
                       package_enumerator("DType", p.dtype), package_truth(p.causal),
                       std::to_string(p.alignment_bytes)});
}

}  // namespace

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
  return problem_text(problem) + ",\n     " + plan_text(plan) + ", " + package_truth(fills_device);
}

}  // namespace swr
