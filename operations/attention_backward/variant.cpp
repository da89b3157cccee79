// SPDX-License-Identifier: MIT
// The axes of attention backward, and its variants in words.
#include "core/field_builders.h"
#include "operations/attention_backward/parts.h"

#include <array>
#include <string>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kForms{"fused"sv, "two_pass"sv};
constexpr std::array kQOrders{"cyclic"sv, "sawtooth"sv, "right_to_left"sv, "rotated"sv};
constexpr std::array kDqSums{"none"sv, "atomic"sv, "ordered"sv};
constexpr std::array kSwizzles{"q_fastest"sv, "head_fastest"sv, "head_sections"sv};
constexpr auto kUndrawn = std::span(kPersistences).first<4>();

constexpr int kMostTile = 256;
constexpr int kMostWarps = 32;
constexpr int kMostCount = 1 << 20;
constexpr int kMostParts = 64;
constexpr int kMostBands = 64;

std::string numbered(std::string_view text, int number) {
  return std::string(text) + (number > 0 ? "/" + std::to_string(number) : "");
}

std::string deal_text(const AttentionBackwardVariant& v) {
  return numbered(to_string(v.persistence), v.workers) + " " +
         numbered(enum_text(kSwizzles, v.swizzle), v.section_heads) +
         (v.last_kv_first ? ", last keys first" : "") +
         (v.bands > 1 ? ", bands " + std::to_string(v.bands) : "") +
         (v.parts > 1 ? ", parts " + std::to_string(v.parts) : "");
}

/// "two_pass" or how dQ is summed.
std::string form_text(const AttentionBackwardVariant& v) {
  return std::string(v.form == BackwardForm::two_pass ? to_string(v.form) : to_string(v.dq_sum));
}

std::string query_text(const AttentionBackwardVariant& v) {
  return v.form == BackwardForm::fused
             ? ""
             : ", dQ " + std::to_string(v.query_tile_m) + "x" + std::to_string(v.query_tile_n) +
                   "x" + std::to_string(v.query_warps) + " stages " +
                   std::to_string(v.query_stages) + " " + std::string(to_string(v.query_order)) +
                   " " + std::string(to_string(v.query_persistence));
}

std::string brief(const AttentionBackwardVariant& v) {
  return (v.family == Family::hopper ? "hopper " : "") + form_text(v) + " " + tile_text_of(v) +
         " stages " + std::to_string(v.stages);
}

}  // namespace

std::string_view to_string(BackwardForm value) { return enum_text(kForms, value); }
std::string_view to_string(QOrder value) { return enum_text(kQOrders, value); }
std::string_view to_string(DqSum value) { return enum_text(kDqSums, value); }

std::span<const Axis> attention_backward_axes() {
  using V = AttentionBackwardVariant;
  static const std::array axes{
      choice_axis(&V::family, kFamilies, "family", "Kernel family."),
      choice_axis(&V::form, kForms, "form", "One pass with five products, or two with seven."),
      choice_axis(&V::dq_sum, kDqSums, "dq_sum", "How dQ is summed over the K and V tiles."),
      integer_axis(&V::tile_m, 1, kMostTile, "tile_m", "Rows of Q and dO per step."),
      integer_axis(&V::tile_n, 1, kMostTile, "tile_n", "K and V rows per tile."),
      integer_axis(&V::warps, 1, kMostWarps, "warps", "Warps per CTA."),
      integer_axis(&V::rows_at_once, 1, kMostTile, "rows_at_once",
                   "Rows whose scores are in registers at a time."),
      integer_axis(&V::column_groups, 1, kMostWarps, "column_groups",
                   "Warps that divide the columns of dK and dV."),
      integer_axis(&V::stages, 1, 3, "stages", "Steps held in shared memory."),
      switch_axis(&V::wide_adds, "wide_adds", "Atomic additions of four values at once."),
      choice_axis(&V::order, kQOrders, "order", "Order in which a tile reads Q and dO."),
      choice_axis(&V::persistence, kPersistences, "persistence",
                  "How K and V tiles are assigned to CTAs."),
      integer_axis(&V::workers, 0, kMostCount, "workers",
                   "CTAs of a persistent launch; 0 fills every resident slot."),
      choice_axis(&V::swizzle, kSwizzles, "swizzle",
                  "How linear tiles map to heads and K and V tiles."),
      integer_axis(&V::section_heads, 0, kMostCount, "section_heads",
                   "Heads of K and V per section of head_sections."),
      integer_axis(&V::parts, 1, kMostParts, "parts",
                   "CTAs that share the loop of one K and V tile."),
      switch_axis(&V::last_kv_first, "last_kv_first", "The last K and V tiles start first."),
      integer_axis(&V::bands, 1, kMostBands, "bands",
                   "Bands of K and V tiles; the first of all heads start first."),
      integer_axis(&V::query_tile_m, 1, kMostTile, "query_tile_m", "dQ pass: rows of Q per tile."),
      integer_axis(&V::query_tile_n, 1, kMostTile, "query_tile_n",
                   "dQ pass: K and V rows per step."),
      integer_axis(&V::query_warps, 1, kMostWarps, "query_warps", "dQ pass: warps per CTA."),
      integer_axis(&V::keys_at_once, 1, kMostTile, "keys_at_once",
                   "dQ pass: keys whose scores are in registers at a time."),
      integer_axis(&V::query_stages, 1, 2, "query_stages",
                   "dQ pass: K and V tiles held in shared memory."),
      choice_axis(&V::query_order, kOrders, "query_order",
                  "dQ pass: direction in which K and V are streamed."),
      choice_axis(&V::query_persistence, kUndrawn, "query_persistence",
                  "dQ pass: how Q tiles are assigned to CTAs."),
  };
  return axes;
}

AttentionBackwardVariant kernel_choices(AttentionBackwardVariant variant) {
  const AttentionBackwardVariant usual;
  variant.workers = usual.workers;
  variant.parts = usual.parts;
  return in_usual_tile_order(variant);
}

AttentionBackwardVariant in_usual_tile_order(AttentionBackwardVariant variant) {
  const AttentionBackwardVariant usual;
  variant.swizzle = usual.swizzle;
  variant.section_heads = usual.section_heads;
  variant.last_kv_first = usual.last_kv_first;
  variant.bands = usual.bands;
  return variant;
}

int warps_of(const AttentionBackwardVariant& variant) { return variant.warps; }
bool has_splits(const AttentionBackwardVariant& variant) { return variant.parts > 1; }

std::string tile_text_of(const AttentionBackwardVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n) + "x" +
         std::to_string(variant.warps);
}

std::string description_of(const AttentionBackwardVariant& variant) {
  return brief(variant) + " " + std::string(to_string(variant.order)) + " " + deal_text(variant) +
         query_text(variant);
}

std::string description_without_order_of(const AttentionBackwardVariant& variant) {
  return brief(variant) + " " + deal_text(variant) + query_text(variant);
}

}  // namespace swr
