// SPDX-License-Identifier: MIT
// From compiled kernels of attention backward to their launches: what is fixed by the variant and
// the device, and what follows from the shape of a problem, workspace included. Self-contained
// arithmetic, as operations/attention/launch_plan.h is.
#pragma once

#include "templates/attention_backward/schedule.h"
#include <swr/attention_backward_axes.h>
#include <swr/attention_backward_params.h>
#include <swr/axes.h>
#include <swr/tensor_map.h>

namespace swr {

/// Everything about the launches of one variant on one device that no shape changes.
struct AttentionBackwardPlan {
  BackwardForm form = BackwardForm::fused;
  DqSum dq_sum = DqSum::none;   ///< none with BackwardForm::two_pass, and only there.
  bool leaves_dq_sums = false;  ///< `finish` makes 16-bit elements of them.
  int head_dim = 0;
  int value_dim = 0;
  DType dtype = DType::fp16;
  bool causal = false;

  // The pass over K and V tiles.
  int tile_m = 0;  ///< Q rows per step.
  int tile_n = 0;  ///< Keys per item.
  int threads = 0;
  int smem_bytes = 0;
  int around_threads = 0;  ///< Of the kernels before and after it.
  int dq_columns = 0;      ///< Columns of the sums of dQ: head_dim, or more.
  /// Boxes of the tensor maps of q and d_o, of k and v, and of dk and dv; no columns for kernels
  /// without maps.
  TensorBox row_box;
  TensorBox key_box;
  TensorBox gradient_box;
  QOrder order = QOrder::cyclic;
  Persistence persistence = Persistence::grid;
  int workers = 1;  ///< CTAs of a persistent launch, at least 1.
  AttentionSwizzle swizzle = AttentionSwizzle::q_fastest;
  int section_heads = 0;  ///< The axis; counts for AttentionSwizzle::head_sections only.
  int parts = 1;          ///< CTAs that share the walk of a K and V tile.
  bool last_kv_first = false;
  int bands = 1;

  // The pass over Q tiles, of BackwardForm::two_pass.
  int query_tile_m = 0;
  int query_threads = 0;
  int query_smem_bytes = 0;
  Persistence query_persistence = Persistence::grid;
  int query_workers = 1;

  constexpr bool takes_tensor_maps() const { return row_box.columns > 0; }
};

/// What of a plan the configurations of the two passes say, those of either family.
template <typename KeyConfig, typename QueryConfig>
constexpr AttentionBackwardPlan plan_of_configs(const KeyConfig& key, const QueryConfig& query) {
  AttentionBackwardPlan plan;
  plan.form = key.sums_dq() ? BackwardForm::fused : BackwardForm::two_pass;
  plan.dq_sum = key.dq_sum;
  plan.leaves_dq_sums = key.leaves_dq_sums();
  plan.head_dim = key.head_dim;
  plan.value_dim = key.value_dim;
  plan.dtype = key.dtype;
  plan.causal = key.causal;
  plan.tile_m = key.tile_m;
  plan.tile_n = key.tile_n;
  plan.threads = key.threads();
  plan.smem_bytes = key.smem_bytes();
  plan.around_threads = key.around_threads();
  plan.dq_columns = key.dq_sum_columns();
  plan.row_box = key.row_box();
  plan.key_box = key.key_box();
  plan.gradient_box = key.gradient_box();
  plan.order = key.order;
  plan.persistence = key.persistence;
  plan.query_tile_m = query.tile_m;
  plan.query_threads = query.threads();
  plan.query_smem_bytes = query.smem_bytes();
  plan.query_persistence = query.persistence;
  return plan;
}

/// One kernel of a call. No launch when it has no CTAs.
struct KernelLaunch {
  int grid_x = 0;
  int block_x = 0;
  int dynamic_smem_bytes = 0;
};

/// Where the pieces of the workspace begin, in bytes. A piece that is not needed has no bytes.
struct BackwardWorkspace {
  long long row_stats = 0;
  long long dq_sums = 0;
  long long turns = 0;
  long long item_counter = 0;
  long long dkv_parts = 0;
  long long bytes = 0;  ///< Of all.
};

/// The launches of one call, in this order on one stream, and what they share.
struct AttentionBackwardGeometry {
  KernelLaunch query_pass;  ///< BackwardForm::two_pass; stands in for `prepare` there.
  KernelLaunch prepare;
  KernelLaunch key_pass;
  KernelLaunch finish;  ///< Sums to 16-bit elements.
  BackwardWorkspace workspace;
  int section_heads = 1;  ///< Values of the parameters of these names.
  int q_section_heads = 1;
  int row_pitch = 0;
  int rotation = 1;
};

namespace backward {

inline constexpr int kWorkspaceAlignment = 256;

constexpr long long aligned(long long bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

constexpr KvItems kv_items(const AttentionBackwardPlan& plan,
                           const AttentionBackwardParams& params) {
  return {params.batch * params.heads_kv, ceil_div(params.seq_kv, plan.tile_n), plan.parts,
          plan.bands};
}

/// Q tiles of all heads, as the pass over K and V tiles cuts them.
constexpr long long q_tiles(const AttentionBackwardPlan& plan,
                            const AttentionBackwardParams& params) {
  return static_cast<long long>(params.batch) * params.heads_q *
         ceil_div(params.seq_q, plan.tile_m);
}

/// Heads of K and V per section.
constexpr int section_heads(const AttentionBackwardPlan& plan, int heads) {
  switch (plan.swizzle) {
    case AttentionSwizzle::q_fastest:
      return 1;
    case AttentionSwizzle::head_fastest:
      return heads;
    case AttentionSwizzle::head_sections:
      return max_of(1, min_of(plan.section_heads, heads));
  }
  return 1;
}

/// An even number of rows, so that the pairs of two rows can be copied at once.
constexpr int row_pitch(int seq_q) { return (seq_q + 1) / 2 * 2; }

/// No term grows with seq_q times seq_kv.
constexpr BackwardWorkspace workspace(const AttentionBackwardPlan& plan,
                                      const AttentionBackwardParams& params) {
  constexpr int kWord = 4;
  const long long q_heads = static_cast<long long>(params.batch) * params.heads_q;
  const long long kv_rows = static_cast<long long>(params.batch) * params.heads_kv * params.seq_kv;
  const long long tiles = q_tiles(plan, params);
  const bool sums = plan.dq_sum != DqSum::none;
  const bool turns = plan.dq_sum == DqSum::ordered;
  const bool draws = turns || plan.persistence == Persistence::dynamic;
  BackwardWorkspace pieces;
  pieces.dq_sums = aligned(q_heads * row_pitch(params.seq_q) * 2 * kWord);
  pieces.turns =
      pieces.dq_sums + (sums ? aligned(tiles * plan.tile_m * plan.dq_columns * kWord) : 0);
  pieces.item_counter =
      pieces.turns + (turns ? aligned(tiles * (plan.around_threads / 32) * kWord) : 0);
  pieces.dkv_parts = pieces.item_counter + (draws ? kWorkspaceAlignment : 0);
  const long long floats = plan.parts * kv_rows * (plan.head_dim + plan.value_dim);
  pieces.bytes = pieces.dkv_parts + (plan.parts > 1 ? aligned(floats * kWord) : 0);
  return pieces;
}

constexpr KernelLaunch query_pass_launch(const AttentionBackwardPlan& plan,
                                         const AttentionBackwardParams& params) {
  const long long tiles = static_cast<long long>(params.batch) * params.heads_q *
                          ceil_div(params.seq_q, plan.query_tile_m);
  const long long ctas = cta_count(plan.query_persistence, tiles, plan.query_workers);
  return {static_cast<int>(ctas), plan.query_threads, plan.query_smem_bytes};
}

}  // namespace backward

/// The launches for the sizes of `params`.
constexpr AttentionBackwardGeometry attention_backward_geometry(
    const AttentionBackwardPlan& plan, const AttentionBackwardParams& params) {
  const backward::KvItems items = backward::kv_items(plan, params);
  const auto tiles = static_cast<int>(backward::q_tiles(plan, params));
  AttentionBackwardGeometry geometry;
  if (plan.form == BackwardForm::two_pass) {
    geometry.query_pass = backward::query_pass_launch(plan, params);
  } else {
    geometry.prepare = {tiles, plan.around_threads, 0};
  }
  geometry.key_pass = {static_cast<int>(cta_count(plan.persistence, items.count(), plan.workers)),
                       plan.threads, plan.smem_bytes};
  const int dq_ctas = plan.leaves_dq_sums ? tiles : 0;
  const int part_ctas = plan.parts > 1 ? static_cast<int>(items.tiles()) : 0;
  if (dq_ctas + part_ctas > 0) {
    geometry.finish = {dq_ctas + part_ctas, plan.around_threads, 0};
  }
  geometry.workspace = backward::workspace(plan, params);
  geometry.section_heads = backward::section_heads(plan, items.heads);
  geometry.q_section_heads = geometry.section_heads * (params.heads_q / params.heads_kv);
  geometry.row_pitch = backward::row_pitch(params.seq_q);
  geometry.rotation = ceil_div(params.seq_kv, plan.tile_n);
  return geometry;
}

/// Fills in what geometry and workspace say.
inline void place_workspace(AttentionBackwardParams& params, const AttentionBackwardPlan& plan,
                            const AttentionBackwardGeometry& geometry, void* workspace) {
  const auto at = [&](long long offset) { return static_cast<char*>(workspace) + offset; };
  params.row_stats = reinterpret_cast<float*>(at(geometry.workspace.row_stats));
  params.dq_sums = reinterpret_cast<float*>(at(geometry.workspace.dq_sums));
  params.turns = reinterpret_cast<unsigned*>(at(geometry.workspace.turns));
  const bool draws = plan.dq_sum == DqSum::ordered || plan.persistence == Persistence::dynamic;
  params.item_counter =
      draws ? reinterpret_cast<unsigned*>(at(geometry.workspace.item_counter)) : nullptr;
  params.dkv_parts = reinterpret_cast<float*>(at(geometry.workspace.dkv_parts));
  params.parts = plan.parts;
  params.last_kv_first = plan.last_kv_first ? 1 : 0;
  params.bands = plan.bands;
  params.section_heads = geometry.section_heads;
  params.q_section_heads = geometry.q_section_heads;
  params.row_pitch = geometry.row_pitch;
  params.rotation = geometry.rotation;
}

}  // namespace swr
