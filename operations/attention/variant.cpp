// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "operations/attention/parts.h"
#include "operations/attention_fields.h"
#include <swr/attention_variant.h>

#include <algorithm>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kSwizzles{"q_fastest"sv, "head_fastest"sv, "head_sections"sv};
constexpr std::array kKvCopies{"cp_async"sv, "tma"sv};
constexpr std::array kPOperands{"registers"sv, "shared"sv};

constexpr int kMaxTile = 1024;
constexpr int kMaxCount = 1 << 20;
constexpr int kMaxKvSplits = 64;

}  // namespace

std::span<const Axis> attention_axes() {
  using V = AttentionVariant;
  static const std::array axes{
      choice_axis(&V::family, kFamilies, "family", "Kernel family."),
      integer_axis(&V::tile_m, 1, kMaxTile, "tile_m", "Q rows per tile."),
      integer_axis(&V::tile_n, 1, kMaxTile, "tile_n", "K and V rows per tile."),
      integer_axis(&V::warps, 1, 32, "warps", "Warps per CTA that compute."),
      integer_axis(&V::stages, 1, 4, "stages", "K and V tiles held in shared memory."),
      choice_axis(&V::order, kOrders, "order", "Direction in which K and V are streamed."),
      choice_axis(&V::persistence, kPersistences, "persistence",
                  "How Q tiles are assigned to CTAs."),
      integer_axis(&V::workers, 0, kMaxCount, "workers",
                   "CTAs of a persistent launch; 0 fills every resident slot."),
      choice_axis(&V::swizzle, kSwizzles, "swizzle", "How linear tiles map to heads and Q tiles."),
      integer_axis(&V::section_heads, 0, kMaxCount, "section_heads",
                   "Heads per section of head_sections."),
      switch_axis(&V::smem_swizzle, "smem_swizzle", "XOR-swizzled shared memory rows.",
                  Family::portable),
      later(integer_axis(&V::kv_splits, 1, kMaxKvSplits, "kv_splits",
                         "CTAs that share the K and V tiles of a Q tile.", Family::portable)),
      later(switch_axis(&V::pack_gqa, "pack_gqa",
                        "Query heads that share a K and V head share Q tiles.", Family::portable)),
      later(switch_axis(&V::longest_first, "longest_first",
                        "Under the causal mask, Q tiles with the most keys start first.",
                        Family::portable)),
      later(choice_axis(&V::kv_copy, kKvCopies, "kv_copy",
                        "How K and V are copied to shared memory.", Family::portable)),
      choice_axis(&V::mainloop, kAttentionMainloops, "mainloop",
                  "How matrix products and softmax overlap.", Family::hopper),
      choice_axis(&V::p_operand, kPOperands, "p_operand", "Where P is kept for the product with V.",
                  Family::hopper),
      integer_axis(&V::exp2_fma_eighths, 0, 4, "exp2_fma_eighths",
                   "How many of eight exponentials the FMA pipe computes.", Family::hopper),
      integer_axis(&V::unroll, 1, 2, "unroll", "Unroll factor of the loop over unmasked tiles.",
                   Family::hopper),
  };
  return axes;
}

/// A kernel that combines splits serves any number of them from two on.
AttentionVariant kernel_choices(AttentionVariant variant) {
  const AttentionVariant usual;
  variant.workers = usual.workers;
  variant.swizzle = usual.swizzle;
  variant.section_heads = usual.section_heads;
  variant.longest_first = usual.longest_first;
  variant.kv_splits = std::min(variant.kv_splits, 2);
  return variant;
}

AttentionVariant in_usual_tile_order(AttentionVariant variant) {
  variant.swizzle = AttentionSwizzle::q_fastest;
  variant.section_heads = 0;
  return variant;
}

int warps_of(const AttentionVariant& variant) { return variant.warps; }
bool has_splits(const AttentionVariant& variant) { return variant.kv_splits > 1; }

std::string_view to_string(KvCopy value) { return enum_text(kKvCopies, value); }
std::string_view to_string(Mainloop value) { return enum_text(kAttentionMainloops, value); }
std::string_view to_string(POperand value) { return enum_text(kPOperands, value); }
std::string_view to_string(AttentionSwizzle value) { return enum_text(kSwizzles, value); }

}  // namespace swr
