// SPDX-License-Identifier: MIT
#include "operations/attention/space.h"

#include "generator/expansion.h"
#include "operations/attention/parts.h"
#include "templates/common/attention_schedule.h"

#include <algorithm>
#include <array>
#include <bit>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr int kLargestHeadDim = 256;

// Tiles that keep everything in registers, for every chip, mask, type and schedule
// (experiments/portable_attention). Two 16-row blocks to a warp halve what is read from shared
// memory per product, while O leaves room for them. Tiles are tile_m, tile_n and warps.
constexpr std::array kPortableTilesTo64{
    Tile{64, 64, 4},  Tile{64, 128, 4}, Tile{64, 32, 4},   Tile{128, 64, 4},
    Tile{128, 64, 8}, Tile{128, 32, 4}, Tile{128, 128, 8}, Tile{80, 80, 5},
};
constexpr std::array kPortableTilesTo96{
    Tile{64, 64, 4},  Tile{64, 96, 4},  Tile{64, 128, 4}, Tile{64, 32, 4},
    Tile{128, 32, 4}, Tile{128, 48, 4}, Tile{128, 64, 8}, Tile{128, 128, 8},
};
constexpr std::array kPortableTilesTo128{
    Tile{64, 64, 4},  Tile{64, 96, 4},  Tile{64, 128, 4},  Tile{64, 32, 4},
    Tile{128, 32, 4}, Tile{128, 64, 8}, Tile{128, 128, 8},
};
constexpr std::array kPortableTilesTo160{
    Tile{64, 32, 4}, Tile{64, 64, 4},  Tile{64, 80, 4},
    Tile{64, 96, 4}, Tile{128, 64, 8}, Tile{128, 96, 8},
};
constexpr std::array kPortableTilesTo192{
    Tile{64, 48, 4},
    Tile{64, 64, 4},
    Tile{128, 48, 8},
    Tile{128, 64, 8},
};
constexpr std::array kPortableTilesBeyond192{
    Tile{64, 32, 4}, Tile{64, 48, 4}, Tile{64, 64, 4}, Tile{128, 32, 8}, Tile{128, 64, 8},
};
constexpr std::array kPortableTilesOfHeadDim{
    TilesOfHeadDim{64, kPortableTilesTo64},
    TilesOfHeadDim{96, kPortableTilesTo96},
    TilesOfHeadDim{128, kPortableTilesTo128},
    TilesOfHeadDim{160, kPortableTilesTo160},
    TilesOfHeadDim{192, kPortableTilesTo192},
    TilesOfHeadDim{kLargestHeadDim, kPortableTilesBeyond192},
};
// On an H200 5 % (head_dim 64) and 10 % (96) faster without a mask than the tiles above.
constexpr std::array kPortableChipTiles{
    ChipTile{90, 0, 64, {.tile_m = 128, .tile_n = 128, .warps = 4}},
    ChipTile{90, 64, 96, {.tile_m = 128, .tile_n = 64, .warps = 4}},
    ChipTile{80, 64, 96, {.tile_m = 128, .tile_n = 64, .warps = 4}},
};
constexpr std::array kPortableSpillingTiles{
    SpillingTile{80, 160, 192, {.tile_m = 64, .tile_n = 48, .warps = 4}, 2},
    SpillingTile{120, 0, 64, {.tile_m = 128, .tile_n = 64, .warps = 4}, 3},
    SpillingTile{121, 0, 64, {.tile_m = 128, .tile_n = 64, .warps = 4}, 3},
};
constexpr std::array kStages{"1"sv, "2"sv, "3"sv, "4"sv};
constexpr std::array kOrders{"cyclic"sv, "sawtooth"sv};
constexpr std::array kPersistences{"grid"sv, "persistent"sv, "pairs"sv};
constexpr std::array kWorkers{"0"sv};
constexpr std::array kSwizzles{"q_fastest"sv, "head_fastest"sv, "head_sections"sv};
constexpr std::array kSmemSwizzles{"on"sv};
constexpr std::array kUnpacked{"off"sv};
// TMA is tried where it is asked for, until measurements say where it pays.
constexpr std::array kKvCopies{"cp_async"sv};
constexpr std::array kPortableAxes{
    AxisDefaults{"stages", kStages},
    AxisDefaults{"order", kOrders},
    AxisDefaults{"persistence", kPersistences},
    AxisDefaults{"workers", kWorkers},
    AxisDefaults{"swizzle", kSwizzles},
    AxisDefaults{"smem_swizzle", kSmemSwizzles},
    AxisDefaults{"pack_gqa", kUnpacked},
    AxisDefaults{"kv_copy", kKvCopies},
};

// A few query rows: memory decides, so tiles differ in the bytes that a CTA has under way, in the
// CTAs that an SM holds, and in the warps that copy and combine splits; where one block of rows is
// all there is, warps share it and divide the keys (experiments/portable_attention). Nothing is
// read twice, so the order of tiles is one.
constexpr std::array kDecodeTilesTo128{
    Tile{16, 32, 1},  Tile{16, 64, 1},  Tile{32, 64, 2}, Tile{64, 32, 4},  Tile{64, 64, 4},
    Tile{64, 128, 4}, Tile{128, 64, 8}, Tile{16, 64, 4}, Tile{16, 128, 4}, Tile{32, 64, 4},
};
constexpr std::array kDecodeTilesTo192{
    Tile{16, 32, 1},  Tile{32, 32, 2}, Tile{64, 32, 4}, Tile{64, 64, 4},
    Tile{128, 32, 8}, Tile{16, 64, 4}, Tile{32, 64, 4},
};
constexpr std::array kDecodeTilesBeyond192{
    Tile{16, 16, 1}, Tile{64, 32, 4}, Tile{64, 64, 4}, Tile{128, 32, 8}, Tile{16, 64, 4},
};
constexpr std::array kDecodeTilesOfHeadDim{
    TilesOfHeadDim{128, kDecodeTilesTo128},
    TilesOfHeadDim{192, kDecodeTilesTo192},
    TilesOfHeadDim{kLargestHeadDim, kDecodeTilesBeyond192},
};
constexpr std::array kOneOrder{"cyclic"sv};
constexpr std::array kOnePersistence{"grid"sv};
constexpr std::array kOneSwizzle{"q_fastest"sv};
constexpr std::array kPacking{"off"sv, "on"sv};
constexpr std::array kDecodeAxes{
    AxisDefaults{"stages", kStages},
    AxisDefaults{"order", kOneOrder},
    AxisDefaults{"persistence", kOnePersistence},
    AxisDefaults{"workers", kWorkers},
    AxisDefaults{"swizzle", kOneSwizzle},
    AxisDefaults{"smem_swizzle", kSmemSwizzles},
    AxisDefaults{"pack_gqa", kPacking},
    AxisDefaults{"kv_copy", kKvCopies},
};
constexpr FamilySpace kDecodeSpace{Family::portable, kDecodeTilesOfHeadDim, kDecodeAxes};

// Measured on an H200 (experiments/hopper_attention). Three consumers pay while O takes few
// registers. Up to head_dim 160 two Q slots beat wider K tiles, so only tiles that leave room for
// both are offered; beyond, two leave room for narrow tiles only, and wider ones compete.
constexpr std::array kHopperTilesTo64{
    Tile{128, 128}, Tile{128, 176}, Tile{192, 96}, Tile{192, 112}, Tile{192, 128},
};
constexpr std::array kHopperTilesTo96{
    Tile{128, 128},
    Tile{128, 160},
    Tile{192, 80},
    Tile{192, 96},
};
constexpr std::array kHopperTilesTo128{
    Tile{128, 96}, Tile{128, 112}, Tile{128, 128}, Tile{128, 144}, Tile{128, 160},
};
constexpr std::array kHopperTilesTo160{
    Tile{128, 64},
    Tile{128, 80},
    Tile{128, 96},
    Tile{128, 112},
};
constexpr std::array kHopperTilesTo192{
    Tile{128, 64},
    Tile{128, 80},
    Tile{128, 96},
};
constexpr std::array kHopperTilesBeyond192{
    Tile{128, 48},
    Tile{128, 64},
    Tile{128, 80},
};
constexpr std::array kHopperTilesOfHeadDim{
    TilesOfHeadDim{64, kHopperTilesTo64},   TilesOfHeadDim{96, kHopperTilesTo96},
    TilesOfHeadDim{128, kHopperTilesTo128}, TilesOfHeadDim{160, kHopperTilesTo160},
    TilesOfHeadDim{192, kHopperTilesTo192}, TilesOfHeadDim{kLargestHeadDim, kHopperTilesBeyond192},
};
constexpr std::array kHopperStages{"2"sv};
constexpr std::array kHopperOrders{"cyclic"sv, "sawtooth"sv, "right_to_left"sv};
constexpr std::array kHopperPersistences{"grid"sv, "persistent"sv, "snake"sv, "dynamic"sv};
constexpr std::array kHopperMainloops{"mutex"sv, "overlap"sv, "overlap_ordered"sv};
constexpr std::array kHopperPOperands{"registers"sv};
constexpr std::array kHopperExp2{"0"sv};
constexpr std::array kHopperUnrolls{"1"sv};
constexpr std::array kHopperAxes{
    AxisDefaults{"stages", kHopperStages},
    AxisDefaults{"order", kHopperOrders},
    AxisDefaults{"persistence", kHopperPersistences},
    AxisDefaults{"workers", kWorkers},
    AxisDefaults{"swizzle", kSwizzles},
    AxisDefaults{"mainloop", kHopperMainloops},
    AxisDefaults{"p_operand", kHopperPOperands},
    AxisDefaults{"exp2_fma_eighths", kHopperExp2},
    AxisDefaults{"unroll", kHopperUnrolls},
};

constexpr std::array kSpaces{FamilySpace{Family::portable, kPortableTilesOfHeadDim, kPortableAxes,
                                         kPortableChipTiles, kPortableSpillingTiles},
                             FamilySpace{Family::hopper, kHopperTilesOfHeadDim, kHopperAxes}};

constexpr int kRowsPerWarp = 16;

/// Warps of a tile that leaves them open.
int default_warps(Family family, int tile_m) {
  constexpr int kUsualWarps = 4;
  const bool four = tile_m % (kUsualWarps * kRowsPerWarp) == 0;
  return family == Family::portable && four ? kUsualWarps : std::max(1, tile_m / kRowsPerWarp);
}

constexpr std::string_view kStagesAxis = "stages";
constexpr std::string_view kSectionAxis = "section_heads";
constexpr std::string_view kSplitAxis = "kv_splits";
constexpr std::string_view kLongestFirstAxis = "longest_first";
constexpr std::array kTileAxes{"tile_m"sv, "tile_n"sv, "warps"sv};

const Axis& axis_named(std::string_view name) {
  return swr::axis_named(AttentionVariant::operation(), name);
}

/// Throws: Error{invalid_argument} for sizes outside of the axes.
Variant checked_tile(Family family, const Tile& tile) {
  Variant variant = AttentionVariant{.family = family};
  const int warps = tile.warps > 0 ? tile.warps : default_warps(family, tile.tile_m);
  const std::array sizes{tile.tile_m, tile.tile_n, warps};
  for (std::size_t i = 0; i < kTileAxes.size(); ++i) {
    const Axis& axis = axis_named(kTileAxes[i]);
    axis.set(variant, static_cast<long long>(sizes[i]));
  }
  return variant;
}

/// Enumerates the space of one family.
class Enumeration {
 public:
  Enumeration(const FamilySpace& space, const AttentionProblem& problem, const DeviceInfo& device,
              const SpaceOptions& options)
      : space_(space),
        problem_(problem),
        device_(device),
        options_(options),
        sections_(section_head_candidates(problem, device)) {}

  std::vector<Variant> variants() const {
    std::vector<Variant> all = tiles();
    for (const AxisDefaults& defaults : space_.axes) {
      all = swr::with_axis(all, axis_named(defaults.axis), options_,
                           [&](const Variant&) { return texts(defaults.values); });
    }
    if (options_.tiles.empty() && find_restriction(kStagesAxis) == nullptr) {
      std::erase_if(all, [&](const Variant& variant) {
        return space_.spills(variant.as<AttentionVariant>(), problem_.head_dim, device_.sm_arch);
      });
    }
    all = with_axis(kSectionAxis, all, &Enumeration::section_values);
    all = with_axis(kSplitAxis, all, &Enumeration::split_values);
    return with_axis(kLongestFirstAxis, all, &Enumeration::longest_first_values);
  }

 private:
  const Values* find_restriction(std::string_view axis) const {
    return restriction_of(options_, axis);
  }

  /// The family's tiles or those asked for, with restricted dimensions replaced.
  std::vector<Variant> tiles() const {
    const bool asked_for = !options_.tiles.empty();
    const std::vector<Tile> list =
        asked_for ? options_.tiles : space_.tiles_of(problem_.head_dim, device_.sm_arch);
    std::vector<Variant> expanded;
    for (const Tile& tile : list) {
      if (!asked_for && is_mostly_empty(tile)) {
        continue;
      }
      std::vector<Variant> shapes{checked_tile(space_.family, tile)};
      for (const std::string_view name : kTileAxes) {
        if (const Values* restriction = find_restriction(name)) {
          shapes = expand(shapes, axis_named(name), *restriction);
        }
      }
      for (const Variant& shape : shapes) {
        append_unique(expanded, shape);
      }
    }
    return expanded;
  }

  /// Of the tiles for a few rows, those made for more than there are.
  bool is_mostly_empty(const Tile& tile) const {
    constexpr int kUsualRows = 64;
    const int packed_rows = problem_.seq_q * (problem_.heads_q / problem_.heads_kv);
    return is_decode(problem_) && space_.family == Family::portable && tile.tile_m > kUsualRows &&
           packed_rows <= kUsualRows;
  }

  /// An axis of the family, with the values worth trying for a variant.
  std::vector<Variant> with_axis(std::string_view name, const std::vector<Variant>& variants,
                                 Values (Enumeration::*values)(const AttentionVariant&)
                                     const) const {
    const Axis& axis = axis_named(name);
    return !axis.belongs_to(space_.family)
               ? variants
               : swr::with_axis(variants, axis, options_, [&](const Variant& variant) {
                   return (this->*values)(variant.as<AttentionVariant>());
                 });
  }

  /// Section sizes: 0 for every swizzle without sections.
  Values section_values(const AttentionVariant& variant) const {
    if (variant.swizzle != AttentionSwizzle::head_sections) {
      return {0LL};
    }
    if (sections_.empty() && find_restriction("swizzle") != nullptr) {
      return {2LL};  // Sections were asked for: try the smallest, or say why there is none.
    }
    return {sections_.begin(), sections_.end()};
  }

  Values split_values(const AttentionVariant& variant) const {
    const std::vector<int> splits = kv_split_candidates(problem_, variant, device_);
    Values values{1LL};
    values.insert(values.end(), splits.begin(), splits.end());
    return values;
  }

  /// Persistent launches are left out: what a CTA is dealt is as long from either end, and no
  /// shape was predicted to be fastest so (experiments/portable_attention).
  Values longest_first_values(const AttentionVariant& variant) const {
    const bool fills_tail = problem_.causal && problem_.seq_q > variant.tile_m &&
                            !is_persistent(variant.persistence) && variant.kv_splits == 1;
    return is_decode(problem_) || !fills_tail ? Values{"off"} : Values{"off", "on"};
  }

  const FamilySpace& space_;
  const AttentionProblem& problem_;
  const DeviceInfo& device_;
  const SpaceOptions& options_;
  std::vector<int> sections_;
};

}  // namespace

std::vector<Tile> FamilySpace::tiles_of(int head_dim, int sm_arch) const {
  const auto serves = [&](const TilesOfHeadDim& list) { return head_dim <= list.up_to_head_dim; };
  const auto everywhere = std::ranges::find_if(tiles, serves)->tiles;
  std::vector<Tile> all(everywhere.begin(), everywhere.end());
  for (const ChipTile& chip : chip_tiles) {
    if (chip.sm_arch == sm_arch && head_dim > chip.above_head_dim &&
        head_dim <= chip.up_to_head_dim) {
      all.push_back(chip.tile);
    }
  }
  return all;
}

bool FamilySpace::spills(const AttentionVariant& variant, int head_dim, int sm_arch) const {
  return std::ranges::any_of(spilling_tiles, [&](const SpillingTile& spilling) {
    const Tile& tile = spilling.tile;
    return spilling.sm_arch == sm_arch && head_dim > spilling.above_head_dim &&
           head_dim <= spilling.up_to_head_dim && variant.stages >= spilling.least_stages &&
           variant.tile_m == tile.tile_m && variant.tile_n == tile.tile_n &&
           variant.warps == tile.warps;
  });
}

std::span<const FamilySpace> family_spaces() { return kSpaces; }

bool is_decode(const AttentionProblem& problem) {
  constexpr int kRowsOfAWarp = 16;
  return problem.seq_q <= kRowsOfAWarp;
}

const FamilySpace& space_of(Family family, const AttentionProblem& problem) {
  const bool is_small = family == Family::portable && is_decode(problem);
  return is_small ? kDecodeSpace : *std::ranges::find(kSpaces, family, &FamilySpace::family);
}

std::vector<int> kv_split_candidates(const AttentionProblem& problem,
                                     const AttentionVariant& variant, const DeviceInfo& device) {
  constexpr int kMostCtasPerSm = 4;
  constexpr int kMostSplits = 64;
  // Combining takes as long as some tiles: more where a tile is more work.
  const int least_tiles_per_split = is_decode(problem) ? 2 : 8;
  const int packed_heads = variant.pack_gqa ? problem.heads_q / problem.heads_kv : 1;
  const WorkItems whole{problem.batch * problem.heads_q / packed_heads,
                        ceil_div(problem.seq_q * packed_heads, variant.tile_m), 1};
  const bool is_usual = variant.order == Order::cyclic &&
                        variant.persistence == Persistence::grid &&
                        variant.swizzle == AttentionSwizzle::q_fastest;
  // Long tiles keep an SM busy alone; then splits pay where at least half of the SMs would idle.
  const int fewer_tiles_than = is_decode(problem) ? device.sm_count : device.sm_count / 2;
  if (!is_usual || whole.count() >= fewer_tiles_than) {
    return {};
  }
  const int most =
      std::min(kMostSplits, ceil_div(problem.seq_kv, variant.tile_n) / least_tiles_per_split);
  std::vector<int> candidates;
  for (int ctas_per_sm = 1; ctas_per_sm <= kMostCtasPerSm; ++ctas_per_sm) {
    const auto filling = static_cast<int>(ctas_per_sm * device.sm_count / whole.count());
    const int splits = std::min(filling, most);
    if (splits > 1 && (candidates.empty() || candidates.back() != splits)) {
      candidates.push_back(splits);
    }
  }
  return candidates;
}

std::vector<int> section_head_candidates(const AttentionProblem& problem,
                                         const DeviceInfo& device) {
  const long long kv_head_bytes =
      2LL * problem.seq_kv * problem.head_dim * element_bytes(problem.dtype);
  const int heads_per_group = problem.heads_q / problem.heads_kv;
  const int all_heads = problem.batch * problem.heads_q;
  std::vector<int> candidates;
  for (const long long budget_bytes : {device.l2_bytes / 2, device.l2_bytes}) {
    // A little more than the L2 does no harm: 64 MiB are best on an H200's 60
    // (experiments/hopper_attention).
    constexpr double kOverfill = 1.1;
    const auto fitting = static_cast<unsigned long long>(
        kOverfill * static_cast<double>(budget_bytes) / static_cast<double>(kv_head_bytes));
    const auto section_heads = static_cast<long long>(std::bit_floor(fitting)) * heads_per_group;
    const bool is_new = candidates.empty() || candidates.back() != section_heads;
    if (section_heads >= 2 && section_heads < all_heads && is_new) {
      candidates.push_back(static_cast<int>(section_heads));
    }
  }
  return candidates;
}

std::vector<Variant> points_of(Family family, const AttentionProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options) {
  return Enumeration(space_of(family, problem), problem, device, options).variants();
}

}  // namespace swr
