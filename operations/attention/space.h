// SPDX-License-Identifier: MIT
// The axis values each attention family is tuned over, as data.
#pragma once

#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/device.h>
#include <swr/generator.h>

#include <span>
#include <string_view>
#include <vector>

namespace swr {

/// Values enumerated for one axis unless it is restricted, in the spelling of the command line.
struct AxisDefaults {
  std::string_view axis;
  std::span<const std::string_view> values;
};

/// Tiles worth trying up to a head_dim: what O leaves of registers and shared memory decides.
struct TilesOfHeadDim {
  int up_to_head_dim;
  std::span<const Tile> tiles;
};

/// A tile for head_dims in (above, up to] that ptxas keeps in registers on one architecture only,
/// or on the others in some schedules only.
struct ChipTile {
  int sm_arch;
  int above_head_dim;
  int up_to_head_dim;
  Tile tile;
};

/// A tile that ptxas does not keep in registers on one architecture from so many stages on, in some
/// schedules (experiments/portable_attention).
struct SpillingTile {
  int sm_arch;
  int above_head_dim;
  int up_to_head_dim;
  Tile tile;
  int least_stages;
};

/// The space of a family. section_heads, kv_splits and longest_first are not listed: their values
/// follow from problem and device.
struct FamilySpace {
  Family family;
  std::span<const TilesOfHeadDim> tiles;  ///< Ascending; the last serves every head_dim.
  std::span<const AxisDefaults> axes;
  std::span<const ChipTile> chip_tiles = {};
  std::span<const SpillingTile> spilling_tiles = {};

  std::vector<Tile> tiles_of(int head_dim, int sm_arch) const;
  bool spills(const AttentionVariant& variant, int head_dim, int sm_arch) const;
};
/// For as many query rows as tiles hold.
std::span<const FamilySpace> family_spaces();

/// True for so few query positions (16) that reading K and V takes the time, not computing: the
/// portable family then has a space of its own.
bool is_decode(const AttentionProblem& problem);
const FamilySpace& space_of(Family family, const AttentionProblem& problem);

/// Splits worth trying beside 1, ascending: with them the Q tiles of a variant become as many CTAs
/// as one to four to each SM, and every split has two K and V tiles at least. Empty where Q tiles
/// fill the SMs, and for other orders of tiles than the usual one. Beyond decoding splits are
/// offered where half of the SMs would idle, and have eight tiles at least.
std::vector<int> kv_split_candidates(const AttentionProblem& problem,
                                     const AttentionVariant& variant, const DeviceInfo& device);

/// Section sizes worth trying, ascending: query heads whose K and V together fill half of the
/// device's L2 and all of it, with a tenth to spare. The K and V heads of a section are a power of
/// two, its query heads whole groups. Empty when not even two heads fit, or all do.
std::vector<int> section_head_candidates(const AttentionProblem& problem, const DeviceInfo& device);

}  // namespace swr
