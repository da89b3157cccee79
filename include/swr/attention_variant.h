// SPDX-License-Identifier: MIT
// What is chosen for attention: tile, pipeline, order of K and V, and how Q tiles reach the SMs.
#pragma once

#include <swr/axes.h>
#include <swr/family.h>
#include <swr/variant.h>

#include <compare>
#include <string_view>

namespace swr {

/// One choice on every axis. The members are the axes, which axes() of the operation describes.
/// Axes that belong to another family keep their default.
struct AttentionVariant {
  Family family = Family::portable;
  /// Q rows per tile; portable: a multiple of 16 * warps; hopper: 16 * warps.
  int tile_m = 64;
  /// K and V rows per tile; a multiple of 16.
  int tile_n = 64;
  /// Warps of a CTA that compute; each owns tile_m / warps rows.
  int warps = 4;
  /// K and V tiles resident in shared memory, 1 to 4.
  int stages = 2;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;
  /// CTAs of a persistent launch; 0 means one per resident slot (SMs times CTAs per SM).
  int workers = 0;
  AttentionSwizzle swizzle = AttentionSwizzle::q_fastest;
  /// Heads per section under AttentionSwizzle::head_sections; 0 elsewhere.
  int section_heads = 0;
  /// Portable: XOR-swizzled shared memory rows; off shows what bank conflicts cost.
  bool smem_swizzle = true;
  /// Portable: CTAs that share the K and V tiles of a Q tile, 1 to 64; the last of them combines
  /// what all have found.
  int kv_splits = 1;
  /// Portable: the rows of a Q tile are those of all query heads of one K and V head, which is then
  /// read once for all of them.
  bool pack_gqa = false;
  /// Portable: under the causal mask the Q tiles of every head are dealt from last to first, those
  /// with most keys before the others. The Hopper family always does.
  bool longest_first = false;
  /// Portable: how K and V come to shared memory.
  KvCopy kv_copy = KvCopy::cp_async;
  /// Hopper: how products and softmax of neighbouring tiles interleave.
  Mainloop mainloop = Mainloop::plain;
  /// Hopper: where P lies while it is multiplied with V.
  POperand p_operand = POperand::registers;
  /// Hopper: of every eight exponentials, how many the FMA pipe computes; 0 to 4.
  int exp2_fma_eighths = 0;
  /// Hopper: unrolling of the loop over tiles that need no mask; 1 or 2.
  int unroll = 1;

  auto operator<=>(const AttentionVariant&) const = default;

  using ErasedAs = Variant;
  static const Operation& operation();
};

std::string_view to_string(KvCopy value);
std::string_view to_string(Mainloop value);
std::string_view to_string(POperand value);
std::string_view to_string(AttentionSwizzle value);

}  // namespace swr
