// SPDX-License-Identifier: MIT
// From a compiled kernel to its launches: what is fixed by the variant and the device, and what
// follows from the shape of a problem. Self-contained arithmetic, so that the tuner, the runtime
// and exported packages, which carry this very file, launch alike.
#pragma once

#include "templates/common/schedule.h"
#include <swr/axes.h>
#include <swr/launch_geometry.h>
#include <swr/tensor_map.h>

namespace swr {

/// Everything about the launches of one compiled kernel on one device that no shape changes.
struct LaunchPlan {
  int tile_m = 0;   ///< Q rows per tile.
  int threads = 0;  ///< Threads per CTA.
  int dynamic_smem_bytes = 0;
  Persistence persistence = Persistence::grid;
  int workers = 1;  ///< CTAs of a persistent launch, at least 1.
  Swizzle swizzle = Swizzle::q_fastest;
  int section_heads = 0;  ///< The axis; counts for Swizzle::head_sections only.
  DType dtype = DType::fp16;
  int head_dim = 0;
  /// Boxes of the tensor maps of q and o, and of k and v; no columns for kernels without maps.
  TensorBox q_box;
  TensorBox kv_box;

  constexpr bool takes_tensor_maps() const { return q_box.columns > 0; }
};

/// Heads per section of the tile mapping. `heads` counts batch * heads_q.
constexpr int mapped_section_heads(const LaunchPlan& plan, int heads) {
  switch (plan.swizzle) {
    case Swizzle::q_fastest:
      return 1;
    case Swizzle::head_fastest:
      return heads;
    case Swizzle::head_sections:
      return max_of(1, min_of(plan.section_heads, heads));
  }
  return 1;
}

/// False when another swizzle maps the tiles of so many heads alike. `heads` counts
/// batch * heads_q, `section_heads` is the axis.
constexpr bool is_distinct_mapping(Swizzle swizzle, int section_heads, int heads) {
  switch (swizzle) {
    case Swizzle::q_fastest:
      return section_heads == 0;
    case Swizzle::head_fastest:
      return section_heads == 0 && heads > 1;
    case Swizzle::head_sections:
      return section_heads >= 2 && section_heads < heads;
  }
  return false;
}

/// The launch for a shape. `heads` counts batch * heads_q.
constexpr LaunchGeometry launch_geometry(const LaunchPlan& plan, int heads, int seq_q) {
  const long long tiles = static_cast<long long>(heads) * ceil_div(seq_q, plan.tile_m);
  LaunchGeometry geometry;
  geometry.grid_x = static_cast<int>(cta_count(plan.persistence, tiles, plan.workers));
  geometry.block_x = plan.threads;
  geometry.dynamic_smem_bytes = plan.dynamic_smem_bytes;
  geometry.section_heads = mapped_section_heads(plan, heads);
  return geometry;
}

}  // namespace swr
