// SPDX-License-Identifier: MIT
// From problem and variant to what is compiled and launched.
#include "core/members.h"
#include "generator/config_text.h"
#include "operations/attention_backward/parts.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <variant>

namespace swr {
constexpr auto members_of(const KeyPassConfig& /*of*/) {
  using C = KeyPassConfig;
  return all_members<C, &C::head_dim, &C::value_dim, &C::dtype, &C::causal, &C::alignment_bytes,
                     &C::tile_m, &C::tile_n, &C::warps, &C::rows_at_once, &C::column_groups,
                     &C::stages, &C::dq_sum, &C::wide_adds, &C::order, &C::persistence,
                     &C::smem_swizzle>();
}
constexpr auto members_of(const HopperKeyPassConfig& /*of*/) {
  using C = HopperKeyPassConfig;
  return all_members<C, &C::head_dim, &C::value_dim, &C::dtype, &C::causal, &C::tile_m, &C::tile_n,
                     &C::warps, &C::stages, &C::dq_sum, &C::order, &C::persistence>();
}
constexpr auto members_of(const QueryPassConfig& /*of*/) {
  using C = QueryPassConfig;
  return all_members<C, &C::head_dim, &C::value_dim, &C::dtype, &C::causal, &C::alignment_bytes,
                     &C::tile_m, &C::tile_n, &C::warps, &C::keys_at_once, &C::stages, &C::order,
                     &C::persistence, &C::smem_swizzle>();
}

namespace {

KeyPassConfig key_config(const AttentionBackwardProblem& problem,
                         const AttentionBackwardVariant& v) {
  return {.head_dim = problem.head_dim,
          .value_dim = problem.head_dim_v,
          .dtype = problem.dtype,
          .causal = problem.causal,
          .alignment_bytes = problem.alignment_bytes,
          .tile_m = v.tile_m,
          .tile_n = v.tile_n,
          .warps = v.warps,
          .rows_at_once = v.rows_at_once,
          .column_groups = v.column_groups,
          .stages = v.stages,
          .dq_sum = v.dq_sum,
          .wide_adds = v.wide_adds,
          .order = v.order,
          .persistence = v.persistence,
          .smem_swizzle = true};
}

HopperKeyPassConfig hopper_key_config(const AttentionBackwardProblem& problem,
                                      const AttentionBackwardVariant& v) {
  return {.head_dim = problem.head_dim,
          .value_dim = problem.head_dim_v,
          .dtype = problem.dtype,
          .causal = problem.causal,
          .tile_m = v.tile_m,
          .tile_n = v.tile_n,
          .warps = v.warps,
          .stages = v.stages,
          .dq_sum = v.dq_sum,
          .order = v.order,
          .persistence = v.persistence};
}

QueryPassConfig query_config(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& v) {
  return {.head_dim = problem.head_dim,
          .value_dim = problem.head_dim_v,
          .dtype = problem.dtype,
          .causal = problem.causal,
          .alignment_bytes = problem.alignment_bytes,
          .tile_m = v.query_tile_m,
          .tile_n = v.query_tile_n,
          .warps = v.query_warps,
          .keys_at_once = v.keys_at_once,
          .stages = v.query_stages,
          .order = v.query_order,
          .persistence = v.query_persistence,
          .smem_swizzle = true};
}

template <typename Config>
std::string braced_members(const Config& config) {
  return "{\n" + designated_members(config) + "    }";
}

template <typename Config>
std::string header_of(const Config& config, const char* file, const char* type) {
  return config_header(file, type,
                       config_field("form", cpp_text(config.form, "")) +
                           config_field("key", braced_members(config.key)) +
                           config_field("query", braced_members(config.query)));
}

std::string header_of(const AttentionBackwardConfig& config) {
  return header_of(config, "attention_backward/config.h", "AttentionBackwardConfig");
}
std::string header_of(const HopperAttentionBackwardConfig& config) {
  return header_of(config, "attention_backward/hopper/config.h", "HopperAttentionBackwardConfig");
}

}  // namespace

BackwardConfig config_of(const AttentionBackwardProblem& problem,
                         const AttentionBackwardVariant& variant) {
  const QueryPassConfig query = query_config(problem, variant);
  if (variant.family == Family::hopper) {
    return HopperAttentionBackwardConfig{variant.form, hopper_key_config(problem, variant), query};
  }
  return AttentionBackwardConfig{variant.form, key_config(problem, variant), query};
}

int smem_bytes_of(const AttentionBackwardProblem& problem,
                  const AttentionBackwardVariant& variant) {
  return std::visit([](const auto& one) { return one.smem_bytes(); }, config_of(problem, variant));
}
int threads_of(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant) {
  return std::visit([](const auto& one) { return one.threads(); }, config_of(problem, variant));
}

std::string config_header_of(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& variant) {
  return std::visit([](const auto& config) { return header_of(config); },
                    config_of(problem, variant));
}

AttentionBackwardPlan plan_of(const AttentionBackwardProblem& problem,
                              const AttentionBackwardVariant& variant, int sm_count,
                              int ctas_per_sm) {
  AttentionBackwardPlan plan =
      std::visit([](const auto& config) { return plan_of_configs(config.key, config.query); },
                 config_of(problem, variant));
  const int resident = std::max(1, sm_count * ctas_per_sm);
  plan.workers = variant.workers > 0 ? variant.workers : resident;
  plan.swizzle = variant.swizzle;
  plan.section_heads = variant.section_heads;
  plan.parts = variant.parts;
  plan.last_kv_first = variant.last_kv_first;
  plan.bands = variant.bands;
  plan.query_workers = resident;
  return plan;
}

AttentionBackwardParams sizes_of(const AttentionBackwardProblem& problem) {
  AttentionBackwardParams params;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.seq_q = problem.seq_q;
  params.seq_kv = problem.seq_kv;
  params.scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
  params.scale_log2 = params.scale * std::numbers::log2e_v<float>;
  return params;
}

LaunchGeometry geometry_of(const AttentionBackwardProblem& problem,
                           const AttentionBackwardVariant& variant, int sm_count, int ctas_per_sm) {
  const AttentionBackwardGeometry geometry = attention_backward_geometry(
      plan_of(problem, variant, sm_count, ctas_per_sm), sizes_of(problem));
  return {.grid_x = geometry.key_pass.grid_x,
          .block_x = geometry.key_pass.block_x,
          .dynamic_smem_bytes = geometry.key_pass.dynamic_smem_bytes,
          .section_heads = geometry.section_heads,
          .partials_bytes = geometry.workspace.bytes};
}

}  // namespace swr
