// SPDX-License-Identifier: MIT
#include "core/members.h"
#include "generator/config_text.h"
#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"
#include <swr/attention_variant.h>

#include <algorithm>
#include <numeric>

namespace swr {
constexpr auto members_of(const ServingAttentionConfig& /*of*/) {
  using C = ServingAttentionConfig;
  return all_members<C, &C::head_dim, &C::head_dim_v, &C::dtype, &C::mask, &C::softcap,
                     &C::kv_source, &C::page_copy, &C::tile_m, &C::tile_n, &C::warps, &C::stages,
                     &C::order, &C::persistence, &C::smem_swizzle, &C::pack_gqa, &C::deal,
                     &C::wgmma>();
}
constexpr auto members_of(const HopperServingConfig& /*of*/) {
  using C = HopperServingConfig;
  return all_members<C, &C::head_dim, &C::dtype, &C::mask, &C::softcap, &C::kv_source,
                     &C::piece_rows, &C::tile_m, &C::tile_n, &C::stages, &C::mainloop, &C::order,
                     &C::persistence>();
}

namespace {

std::string header_of(const ServingAttentionConfig& config) {
  return config_header("attention_serving/config.h", "ServingAttentionConfig",
                       designated_members(config));
}
std::string header_of(const HopperServingConfig& config) {
  return config_header("attention_serving/hopper/config.h", "HopperServingConfig",
                       designated_members(config));
}

KvSource kv_source_of(const ServingAttentionProblem& problem) {
  return problem.page_size > 0 ? KvSource::pages : KvSource::rows;
}

/// Of the portable family, and of what the Hopper family deals in parts of the keys.
ServingAttentionConfig parts_config(const ServingAttentionProblem& problem,
                                    const ServingAttentionVariant& variant) {
  return {.head_dim = problem.head_dim,
          .head_dim_v = problem.head_dim_v,
          .dtype = problem.dtype,
          .mask = problem.mask,
          .softcap = problem.softcap,
          .kv_source = kv_source_of(problem),
          .page_copy = variant.page_copy,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .warps = variant.warps,
          .stages = variant.stages,
          .order = variant.order,
          .persistence = variant.persistence,
          .smem_swizzle = true,
          .pack_gqa = variant.pack_gqa,
          .deal = variant.deal,
          .wgmma = variant.family == Family::hopper};
}

/// Under a window pieces are so short that little of a tile is cut.
int hopper_piece_rows(const ServingAttentionProblem& problem, int tile_n) {
  constexpr int kOfWindows = 16;
  const int rows = problem.page_size > 0 ? std::gcd(problem.page_size, tile_n) : tile_n;
  return problem.mask == ServingMask::window ? std::gcd(rows, kOfWindows) : rows;
}

HopperServingConfig hopper_config(const ServingAttentionProblem& problem,
                                  const ServingAttentionVariant& variant) {
  return {.head_dim = problem.head_dim,
          .dtype = problem.dtype,
          .mask = problem.mask,
          .softcap = problem.softcap,
          .kv_source = kv_source_of(problem),
          .piece_rows = hopper_piece_rows(problem, variant.tile_n),
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .stages = variant.stages,
          .mainloop = variant.mainloop,
          .order = variant.order,
          .persistence = variant.persistence};
}

}  // namespace

ServingFamilyConfig config_of(const ServingAttentionProblem& problem,
                              const ServingAttentionVariant& variant) {
  if (variant.family == Family::hopper && variant.deal == Deal::whole) {
    return hopper_config(problem, variant);
  }
  return parts_config(problem, variant);
}

std::string config_header_of(const ServingAttentionProblem& problem,
                             const ServingAttentionVariant& variant) {
  return std::visit([](const auto& config) { return header_of(config); },
                    config_of(problem, variant));
}

int smem_bytes_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant) {
  return std::visit([](const auto& config) { return config.fixed_smem_bytes(); },
                    config_of(problem, variant)) +
         list_bytes(kListEntries);
}

int threads_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant) {
  return std::visit([](const auto& config) { return config.threads(); },
                    config_of(problem, variant));
}

int warps_of(const ServingAttentionVariant& variant) { return variant.warps; }

ServingLaunchPlan plan_of(const ServingAttentionProblem& problem,
                          const ServingAttentionVariant& variant, int sm_count, int ctas_per_sm) {
  const ServingFamilyConfig of_family = config_of(problem, variant);
  ServingLaunchPlan plan = std::visit(
      [&](const auto& config) {
        return ServingLaunchPlan{.tiles = config.tiles(),
                                 .head_dim_v = problem.head_dim_v,
                                 .threads = config.threads(),
                                 .fixed_smem_bytes = config.fixed_smem_bytes(),
                                 .persistence = config.persistence};
      },
      of_family);
  plan.workers =
      std::clamp(variant.workers > 0 ? variant.workers : sm_count * ctas_per_sm, 1, kMostWorkers);
  if (const auto* const hopper = std::get_if<HopperServingConfig>(&of_family)) {
    plan.maps = {.q_box = hopper->q_box(),
                 .kv_box = hopper->kv_box(),
                 .kv_panels = hopper->has_whole_boxes() ? hopper->dense().panels() : 0,
                 .head_dim = problem.head_dim,
                 .dtype = problem.dtype};
  }
  return plan;
}

void set_choices(ServingAttentionParams& params, const ServingAttentionVariant& variant) {
  params.section_heads = variant.section_heads;
  params.item_order = variant.item_order;
  params.item_overhead = variant.item_overhead;
  params.least_units = variant.least_units;
}

ServingAttentionParams bounds_of(const ServingAttentionProblem& problem) {
  static constexpr int kSomewhere = 0;  // Launch plans ask whether there are lengths, not which.
  ServingAttentionParams params;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.max_seq_q = problem.seq_q;
  params.max_seq_kv = problem.seq_kv + (problem.leftpad ? padding_of(problem, problem.seq_kv) : 0);
  params.total_q = draw_lengths(problem).total_queries();
  params.lengths.cu_seqlens_q = &kSomewhere;
  if (problem.mask == ServingMask::window) {
    params.window = {.left = problem.window, .right = 0};
  }
  return params;
}

LaunchGeometry geometry_of(const ServingAttentionProblem& problem,
                           const ServingAttentionVariant& variant, int sm_count, int ctas_per_sm) {
  ServingAttentionParams params = bounds_of(problem);
  set_choices(params, variant);
  const ServingLaunch launch =
      serving_launch(plan_of(problem, variant, sm_count, ctas_per_sm), params);
  return {.grid_x = launch.grid_x,
          .block_x = launch.block_x,
          .dynamic_smem_bytes = launch.dynamic_smem_bytes,
          .section_heads = variant.section_heads,
          .partials_bytes = launch.partials_bytes,
          .arrival_words = launch.arrival_words};
}

}  // namespace swr
