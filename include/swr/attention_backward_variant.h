// SPDX-License-Identifier: MIT
// What is chosen for attention backward: how many passes, their tiles, orders and deals, and how dQ
// is summed.
#pragma once

#include <swr/attention_backward_axes.h>
#include <swr/attention_backward_problem.h>
#include <swr/family.h>
#include <swr/variant.h>

#include <compare>
#include <string_view>

namespace swr {

/// One choice on every axis. The members are the axes, which axes() of the operation describes.
/// Those of the pass over Q tiles keep their default with BackwardForm::fused.
struct AttentionBackwardVariant {
  Family family = Family::portable;
  BackwardForm form = BackwardForm::fused;
  DqSum dq_sum = DqSum::atomic;

  // The pass over K and V tiles.
  int tile_m = 64;  ///< Rows of Q and dO per step.
  int tile_n = 64;  ///< Keys of a tile; a multiple of 16 * warps / column_groups.
  int warps = 4;    ///< That compute; those that load do not count.
  /// Rows of a step whose scores a warp has in registers together.
  int rows_at_once = 16;
  /// Warps that share keys and divide the columns of dK and dV.
  int column_groups = 1;
  int stages = 1;          ///< Steps whose Q is in shared memory: 1 or 2, of hopper 2 or 3.
  bool wide_adds = false;  ///< DqSum::atomic adds four values at once (sm_90 and later).
  QOrder order = QOrder::cyclic;
  Persistence persistence = Persistence::grid;
  /// CTAs of a persistent launch; 0 means one per resident slot (SMs times CTAs per SM).
  int workers = 0;
  AttentionSwizzle swizzle = AttentionSwizzle::q_fastest;
  /// Heads of K and V per section under AttentionSwizzle::head_sections; 0 elsewhere.
  int section_heads = 0;
  int parts = 1;               ///< CTAs that share the walk of a K and V tile.
  bool last_kv_first = false;  ///< K and V tiles of a band are dealt from last to first.
  /// Bands of a head's K and V tiles; the first bands of all heads are dealt before any second.
  int bands = 1;

  // The pass over Q tiles.
  int query_tile_m = 64;
  int query_tile_n = 64;
  int query_warps = 4;
  int keys_at_once = 16;  ///< Of a tile whose scores a warp has in registers together.
  int query_stages = 1;   ///< K and V tiles in shared memory, 1 or 2.
  Order query_order = Order::cyclic;
  Persistence query_persistence = Persistence::grid;

  auto operator<=>(const AttentionBackwardVariant&) const = default;

  using ErasedAs = Variant;
  static const Operation& operation() { return attention_backward_operation(); }
};

std::string_view to_string(BackwardForm value);
std::string_view to_string(QOrder value);
std::string_view to_string(DqSum value);

}  // namespace swr
