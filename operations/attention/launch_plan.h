// SPDX-License-Identifier: MIT
// From a compiled kernel to its launches: what is fixed by the variant and the device, and what
// follows from the shape of a problem. Self-contained arithmetic, so that the tuner, the runtime
// and exported packages, which carry this very file, launch alike.
#pragma once

#include "templates/common/attention_schedule.h"
#include <swr/attention_params.h>
#include <swr/axes.h>
#include <swr/launch_geometry.h>
#include <swr/tensor_map.h>

namespace swr {

/// Everything about the launches of one compiled kernel on one device that no shape changes.
struct AttentionLaunchPlan {
  int tile_m = 0;   ///< Q rows per tile.
  int tile_n = 0;   ///< K and V rows per tile.
  int threads = 0;  ///< Threads per CTA.
  int dynamic_smem_bytes = 0;
  Persistence persistence = Persistence::grid;
  int workers = 1;  ///< CTAs of a persistent launch, at least 1.
  AttentionSwizzle swizzle = AttentionSwizzle::q_fastest;
  int section_heads = 0;       ///< The axis; counts for AttentionSwizzle::head_sections only.
  int kv_splits = 1;           ///< CTAs that share the K and V tiles of a Q tile.
  bool pack_gqa = false;       ///< Query heads of one K and V head share Q tiles.
  bool longest_first = false;  ///< Causal Q tiles with most keys are dealt first.
  DType dtype = DType::fp16;
  int head_dim = 0;
  int sm_count = 1;     ///< Of the device.
  int ctas_per_sm = 1;  ///< That fit an SM.
  /// Boxes of the tensor maps of q and o, and of k and v; no columns for kernels without such maps.
  TensorBox q_box;
  TensorBox kv_box;

  constexpr bool takes_tensor_maps() const { return kv_box.columns > 0; }
};

/// Heads that have Q tiles of their own, over the batch.
constexpr int scheduled_heads(const AttentionLaunchPlan& plan, const AttentionParams& params) {
  return params.batch * (plan.pack_gqa ? params.heads_kv : params.heads_q);
}

/// What the CTAs of a launch are dealt.
constexpr WorkItems work_items(const AttentionLaunchPlan& plan, const AttentionParams& params) {
  const int packed_heads = plan.pack_gqa ? params.heads_q / params.heads_kv : 1;
  return {scheduled_heads(plan, params), ceil_div(params.seq_q * packed_heads, plan.tile_m),
          plan.kv_splits};
}

/// More than any launch for which splits pay needs.
inline constexpr long long kMostPartialsBytes = 1LL << 30;

/// Bytes that splits leave for the one that combines them; 0 without splits.
constexpr long long partials_bytes(const WorkItems& items, int tile_m, int head_dim) {
  constexpr int kFloatBytes = 4;
  constexpr int kShiftAndSum = 2;
  return items.splits == 1 ? 0 : items.count() * tile_m * (head_dim + kShiftAndSum) * kFloatBytes;
}

/// Heads per section of the tile mapping. `heads` as scheduled_heads() counts them.
constexpr int mapped_section_heads(const AttentionLaunchPlan& plan, int heads) {
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

/// False when another swizzle maps the tiles of so many heads alike. `heads` as scheduled_heads()
/// counts them, `section_heads` is the axis.
constexpr bool is_distinct_mapping(AttentionSwizzle swizzle, int section_heads, int heads) {
  switch (swizzle) {
    case AttentionSwizzle::q_fastest:
      return section_heads == 0;
    case AttentionSwizzle::head_fastest:
      return section_heads == 0 && heads > 1;
    case AttentionSwizzle::head_sections:
      return section_heads >= 2 && section_heads < heads;
  }
  return false;
}

/// Whether so many CTAs leave the scheduler no way to put more of them on one SM than on another.
/// Where it has one it takes it for a launch that starts while another ends, which then took 13 to
/// 27 % longer on an H200 (experiments/portable_attention).
constexpr bool must_fall_evenly(const AttentionLaunchPlan& plan, int ctas) {
  return ceil_div(ctas, plan.sm_count) >= plan.ctas_per_sm;
}

/// The launch for the sizes of `params`.
constexpr LaunchGeometry launch_geometry(const AttentionLaunchPlan& plan,
                                         const AttentionParams& params) {
  const WorkItems items = work_items(plan, params);
  LaunchGeometry geometry;
  geometry.grid_x = static_cast<int>(cta_count(plan.persistence, items.count(), plan.workers));
  geometry.block_x = plan.threads;
  geometry.dynamic_smem_bytes = plan.dynamic_smem_bytes;
  geometry.section_heads = mapped_section_heads(plan, items.heads);
  geometry.partials_bytes = partials_bytes(items, plan.tile_m, plan.head_dim);
  geometry.arrival_words = plan.kv_splits == 1 ? 0 : items.tiles();
  return geometry;
}

}  // namespace swr
