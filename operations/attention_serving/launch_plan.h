// SPDX-License-Identifier: MIT
// From a compiled kernel for unequal sequences to its launches. Everything here follows from upper
// bounds, which the host knows: lengths stay on the device, and a captured graph replays with other
// ones. Self-contained arithmetic.
#pragma once

#include "templates/common/serving_schedule.h"
#include <swr/axes.h>
#include <swr/kv_append_params.h>
#include <swr/merge_states_params.h>
#include <swr/serving_attention_params.h>
#include <swr/tensor_map.h>

namespace swr {

/// CTAs of a launch that leaves parts, at most, so that a word for each has a place of its own in
/// every launch's memory.
inline constexpr int kMostWorkers = 1 << 14;

/// What a kernel's tensor maps copy at once; no columns for kernels without maps.
struct ServingMapPlan {
  TensorBox q_box;  ///< Of q and o.
  TensorBox kv_box;
  int kv_panels = 0;  ///< That a box of k and v holds, in octets of rows; 0: one, not in octets.
  int head_dim = 0;
  DType dtype = DType::fp16;

  constexpr bool takes_tensor_maps() const { return kv_box.columns > 0; }
};

/// Everything about the launches of one compiled kernel on one device that no problem changes.
struct ServingLaunchPlan {
  ServingTiles tiles;
  int head_dim_v = 0;
  int threads = 0;
  /// Without the list of sequences, which dynamic_smem_bytes() adds.
  int fixed_smem_bytes = 0;
  Persistence persistence = Persistence::grid;  ///< Counts for Deal::whole only.
  /// CTAs of persistent launches and of ranges, and the most of direct parts; at least 1.
  int workers = 1;
  ServingMapPlan maps{};
};

/// What a launch needs, whatever the lengths turn out to be.
struct ServingLaunch {
  int grid_x = 0;
  int block_x = 0;
  int dynamic_smem_bytes = 0;
  long long partials_bytes = 0;
  int arrival_words = 0;
};

/// The most Q tiles that lengths within the bounds of `params` can make. 64 bits, since q_rows
/// times packed heads may be long.
constexpr long long most_items(const ServingTiles& tiles, const ServingAttentionParams& params) {
  const long long pack = packed_heads(tiles, params);
  const long long m = tiles.tile_m;
  long long q_tiles = params.batch * ((params.max_seq_q * pack + m - 1) / m);
  if (params.lengths.cu_seqlens_q != nullptr) {
    // No sequence has a tile more than its rows fill, and none without rows has any.
    const long long by_rows = (params.total_q * pack + params.batch * (m - 1)) / m;
    q_tiles = by_rows < q_tiles ? by_rows : q_tiles;
  }
  return q_tiles * scheduled_heads(tiles, params);
}

/// The most units that lengths within the bounds can make.
constexpr long long most_units(const ServingTiles& tiles, const ServingAttentionParams& params) {
  const long long kv_tiles = (params.max_seq_kv + tiles.tile_n - 1LL) / tiles.tile_n;
  return most_items(tiles, params) *
         (tiles.deal == Deal::whole ? 1 : params.item_overhead + (kv_tiles < 1 ? 1 : kv_tiles));
}

/// CTAs of Deal::direct: equal numbers for all items, more than one while workers last.
constexpr int direct_ctas(const ServingLaunchPlan& plan, const ServingAttentionParams& params) {
  const auto items = static_cast<int>(direct_items(plan.tiles, params));
  const int kv_tiles = (params.max_seq_kv + plan.tiles.tile_n - 1) / plan.tiles.tile_n;
  const int most = plan.workers / (items < 1 ? 1 : items);
  return items * clamp_to(direct_parts(kv_tiles, params.least_units), 1, most < 1 ? 1 : most);
}

/// CTAs of a launch. Those that lengths leave without work end at once.
constexpr int serving_ctas(const ServingLaunchPlan& plan, const ServingAttentionParams& params) {
  if (plan.tiles.deal == Deal::direct) {
    return direct_ctas(plan, params);
  }
  const Persistence persistence =
      plan.tiles.deal == Deal::ranges ? Persistence::persistent : plan.persistence;
  return static_cast<int>(cta_count(persistence, most_units(plan.tiles, params), plan.workers));
}

/// Bytes of the list of sequences: the end of every entry, and which entry it is.
constexpr int list_bytes(int batch) { return list_entries(batch) * 12; }

/// The launch for the bounds in `params`.
constexpr ServingLaunch serving_launch(const ServingLaunchPlan& plan,
                                       const ServingAttentionParams& params) {
  constexpr int kFloatBytes = 4;
  constexpr int kShiftAndSum = 2;
  constexpr int kCounterWords = 2;  // Q tiles that were drawn, and CTAs that draw no more.
  ServingLaunch launch;
  launch.grid_x = serving_ctas(plan, params);
  launch.block_x = plan.threads;
  launch.dynamic_smem_bytes = plan.fixed_smem_bytes + list_bytes(params.batch);
  if (plan.tiles.deal != Deal::whole) {
    // CTAs beyond the workers are whole items, dealt directly.
    launch.arrival_words = launch.grid_x < plan.workers ? launch.grid_x : plan.workers;
    launch.partials_bytes = 2LL * launch.arrival_words * plan.tiles.tile_m *
                            (plan.head_dim_v + kShiftAndSum) * kFloatBytes;
  } else if (plan.persistence == Persistence::dynamic) {
    launch.arrival_words = kCounterWords;
  }
  return launch;
}

/// Rows of q over the batch, at most.
constexpr long long most_query_rows(const ServingAttentionParams& params) {
  return params.lengths.cu_seqlens_q != nullptr
             ? params.total_q
             : params.batch * static_cast<long long>(params.max_seq_q);
}

/// Pieces of 16 bytes that an appending launch moves at most.
constexpr long long most_append_pieces(const KvAppendParams& params) {
  const ServingAttentionParams& attention = params.attention;
  const long long of_q = params.q_rotated == nullptr ? 0 : most_query_rows(attention);
  return params.total_k_new * attention.heads_kv * ((params.head_dim + params.head_dim_v) / 8) +
         of_q * attention.heads_q * (params.head_dim / 8);
}

/// Threads of a CTA of the kernels beside attention, which append and merge.
inline constexpr int kThreadsBesideAttention = 256;

/// Whether their launches may overlap: they wait for the launch before from this architecture on.
constexpr bool may_overlap_beside(int sm_arch) { return sm_arch >= 90; }

/// CTAs of their launches: one piece a thread, as far as the GPU has room for so many.
constexpr int ctas_for_pieces(long long pieces, int sm_count) {
  constexpr int kCtasPerSm = 8;
  const long long wanted = (pieces + kThreadsBesideAttention - 1) / kThreadsBesideAttention;
  const long long most = static_cast<long long>(sm_count) * kCtasPerSm;
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}
constexpr int append_ctas(const KvAppendParams& params, int sm_count) {
  return ctas_for_pieces(most_append_pieces(params), sm_count);
}
constexpr int merge_ctas(const MergeStatesParams& params, int sm_count) {
  return ctas_for_pieces(params.rows * params.heads * (params.head_dim / 8), sm_count);
}

}  // namespace swr
