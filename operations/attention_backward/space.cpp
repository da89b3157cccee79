// SPDX-License-Identifier: MIT
// The points that are enumerated, and the one that is taken where nothing is known.
#include "core/constraint_rules.h"
#include "core/field_builders.h"
#include "generator/expansion.h"
#include "operations/attention_backward/parts.h"
#include "templates/attention_backward/offered.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;
using V = AttentionBackwardVariant;

/// The columns that tiles are offered for: the least that are as many as the problem's.
int offered_columns(const AttentionBackwardProblem& problem) {
  const int columns = std::max(problem.head_dim, problem.head_dim_v);
  int least = backward::kKeyTiles[backward::kKeyTilesCount - 1].head_dim;
  for (const backward::KeyTiles& tiles : backward::kKeyTiles) {
    least = tiles.head_dim >= columns ? std::min(least, tiles.head_dim) : least;
  }
  return least;
}

V with_key_tiles(V variant, const backward::KeyTiles& tiles) {
  variant.tile_m = tiles.tile_m;
  variant.tile_n = tiles.tile_n;
  variant.warps = tiles.warps;
  variant.rows_at_once = tiles.rows_at_once;
  variant.column_groups = tiles.column_groups;
  variant.stages = tiles.stages;
  return variant;
}

/// Of the hopper family: more rows a step where dK and dV leave registers for their scores, fewer
/// keys where a consumer has no registers for dK and dV of 64.
V with_hopper_tiles(V variant, const AttentionBackwardProblem& problem) {
  constexpr int kNarrow = 64;
  constexpr int kWide = 128;
  const int columns = std::max(problem.head_dim, problem.head_dim_v);
  variant.family = Family::hopper;
  variant.tile_m = columns <= kNarrow ? 128 : 64;
  variant.tile_n = columns <= kWide ? 128 : 64;
  variant.warps = 8;
  variant.stages = 2;
  return variant;
}

V with_query_tiles(V variant, const backward::QueryTiles& tiles) {
  variant.query_tile_m = tiles.tile_m;
  variant.query_tile_n = tiles.tile_n;
  variant.query_warps = tiles.warps;
  variant.keys_at_once = tiles.keys_at_once;
  variant.query_stages = tiles.stages;
  return variant;
}

std::vector<V> hopper_forms(const AttentionBackwardProblem& problem) {
  std::vector<V> all{with_hopper_tiles({}, problem),
                     with_hopper_tiles({.dq_sum = DqSum::ordered}, problem)};
  const V two_pass{.form = BackwardForm::two_pass, .dq_sum = DqSum::none};
  for (const backward::QueryTiles& query : backward::kHopperQueryTiles) {
    if (query.head_dim == offered_columns(problem)) {
      all.push_back(with_query_tiles(with_hopper_tiles(two_pass, problem), query));
    }
  }
  return all;
}

/// Every way of summing dQ that may be worth it, with offered tiles.
std::vector<V> forms_and_tiles(Family family, const AttentionBackwardProblem& problem) {
  if (family == Family::hopper) {
    return hopper_forms(problem);
  }
  std::vector<V> all;
  const int columns = offered_columns(problem);
  for (const backward::KeyTiles& key : backward::kKeyTiles) {
    if (key.head_dim != columns) {
      continue;
    }
    for (const DqSum sum : {DqSum::atomic, DqSum::ordered}) {
      all.push_back(with_key_tiles({.form = BackwardForm::fused, .dq_sum = sum}, key));
    }
    for (const backward::QueryTiles& query : backward::kQueryTiles) {
      if (query.head_dim == columns) {
        const V two_pass{.form = BackwardForm::two_pass, .dq_sum = DqSum::none};
        all.push_back(with_query_tiles(with_key_tiles(two_pass, key), query));
      }
    }
  }
  return all;
}

/// --tile replaces the offered tiles of the pass over K and V tiles; what goes with them stays.
std::vector<V> first_points(Family family, const AttentionBackwardProblem& problem,
                            const SpaceOptions& options) {
  std::vector<V> all;
  for (const V& offered : forms_and_tiles(family, problem)) {
    if (options.tiles.empty()) {
      all.push_back(offered);
    }
    for (const Tile& tile : options.tiles) {
      V asked = offered;
      asked.tile_m = tile.tile_m;
      asked.tile_n = tile.tile_n;
      asked.warps =
          tile.warps > 0 ? tile.warps : std::max(1, tile.tile_n * asked.column_groups / 16);
      if (std::ranges::find(all, asked) == all.end()) {
        all.push_back(asked);
      }
    }
  }
  return all;
}

Values numbers(std::initializer_list<long long> values) { return {values.begin(), values.end()}; }
Values one_text(std::string_view text) { return {std::string(text)}; }

/// Bands of a head of so many K and V tiles where tiles take turns: a causal launch ends with the
/// longest tiles of the last band, and a tile waits behind those of its band. Fewer than four tiles
/// to a band read Q and dO from DRAM once a band. Atomic sums gain nothing
/// (experiments/attention_backward).
int usual_bands(int kv_tiles) {
  constexpr int kBands = 4;
  constexpr int kTiles = 4;
  return std::clamp(kv_tiles / kTiles, 1, kBands);
}

int kv_tiles_of(const AttentionBackwardProblem& problem, const V& v) {
  return ceil_div(problem.seq_kv, v.tile_n);
}

/// CTAs of the pass over K and V tiles while each walks alone.
long long whole_walks(const AttentionBackwardProblem& problem, const V& v) {
  return 1LL * problem.batch * problem.heads_kv * kv_tiles_of(problem, v);
}

/// True where as many CTAs as these parts make fill the GPU. Where tiles of causal heads take turns
/// a band has to fill it one and a half times: with fewer, tiles of the next band wait for those of
/// this one (experiments/attention_backward).
bool fill_the_gpu(const AttentionBackwardProblem& problem, const V& v, int parts, int sm_count) {
  const long long twice = 2 * parts * whole_walks(problem, v);
  if (v.dq_sum == DqSum::ordered && problem.causal) {
    return twice >= 3LL * usual_bands(kv_tiles_of(problem, v)) * sm_count;
  }
  return twice > sm_count;
}

/// True where L2 keeps what the CTAs of a causal launch go through together: each half of L2 keeps
/// a copy. Without a mask they stay together.
bool stays_in_l2(const AttentionBackwardProblem& problem, const V& v, const DeviceInfo& device) {
  return !problem.causal || 2 * bytes_walked_together(problem, v, device.sm_count) <=
                                static_cast<double>(device.l2_bytes);
}

/// CTAs that share the walk of a K and V tile, each with whole query heads: parts of one head would
/// wait for each other. The fewest that fill the GPU and leave what runs together in L2.
int usual_parts(const AttentionBackwardProblem& problem, V v, const DeviceInfo& device) {
  constexpr int kMostToFill = 4;
  const int group = group_of(problem);
  v.parts = 1;
  for (int more = 2; more <= group && part_bytes(problem, more) <= kMostPartBytes; ++more) {
    const bool fills = v.parts >= kMostToFill || fill_the_gpu(problem, v, v.parts, device.sm_count);
    if (fills && stays_in_l2(problem, v, device)) {
      break;
    }
    v.parts = group % more == 0 ? more : v.parts;
  }
  return v.parts;
}

/// One part, those that are usual, and all query heads of a group apart; more where CTAs are few.
Values parts_to_try(const AttentionBackwardProblem& problem, const V& v, const DeviceInfo& device) {
  if (whole_walks(problem, v) < device.sm_count && walk_steps(problem, v) > 1) {
    return numbers({1, 2, 4});
  }
  const int usual = usual_parts(problem, v, device);
  return usual > 1 ? numbers({1, usual, group_of(problem)}) : numbers({1});
}

/// Without bands, with the usual number, and with twice as many.
Values bands_to_try(int kv_tiles) {
  const int usual = usual_bands(kv_tiles);
  return numbers({1, usual, std::min(2 * usual, kv_tiles)});
}

/// What is enumerated of an axis that is not restricted; `v` has those before it. Two passes have
/// two lists of tiles, so the one over K and V tiles keeps its plain deal.
Values usual_values(const AttentionBackwardProblem& problem, const DeviceInfo& device, const V& v,
                    std::string_view axis) {
  constexpr int kFirstWideArch = 90;
  const bool atomic = v.dq_sum == DqSum::atomic;
  const bool two_pass = v.form == BackwardForm::two_pass;
  const bool hopper = v.family == Family::hopper;
  const bool hopper_turns = hopper && v.dq_sum == DqSum::ordered;
  const bool wide = atomic && !hopper && device.sm_arch >= kFirstWideArch;
  const std::map<std::string_view, Values> all{
      {"stages", hopper_turns ? numbers({2})
                 : hopper     ? numbers({2, 3})
                              : numbers({1, 2})},
      {"wide_adds", one_text(wide ? "on" : "off")},
      {"order", atomic                     ? Values{"cyclic", "sawtooth", "rotated"}
                : two_pass || hopper_turns ? one_text("cyclic")
                                           : Values{"cyclic", "right_to_left"}},
      {"persistence", atomic ? Values{"grid", "persistent"} : one_text("grid")},
      {"parts", parts_to_try(problem, v, device)},
      {"last_kv_first", !problem.causal ? one_text("off")
                        : hopper_turns  ? one_text("on")
                                        : texts(kSwitches)},
      {"bands", hopper_turns ? bands_to_try(kv_tiles_of(problem, v)) : numbers({1})},
      {"query_persistence",
       two_pass && problem.causal ? Values{"grid", "pairs"} : one_text("grid")}};
  const auto found = all.find(axis);
  if (found != all.end()) {
    return found->second;
  }
  return {axis_named(attention_backward_operation(), axis).get(v)};
}

/// Axes whose values first_points() has chosen together.
constexpr std::array kOfFirstPoints{"form"sv, "dq_sum"sv, "tile_m"sv, "tile_n"sv, "warps"sv};

bool is_allowed(const V& first, const SpaceOptions& options) {
  return std::ranges::all_of(std::array{"form"sv, "dq_sum"sv}, [&](std::string_view name) {
    const Values* const asked = restriction_of(options, name);
    const AxisValue value = axis_named(attention_backward_operation(), name).get(first);
    return asked == nullptr || std::ranges::find(*asked, value) != asked->end();
  });
}

std::vector<Axis> axes_to_enumerate() {
  std::vector<Axis> others;
  for (const Axis& axis : attention_backward_axes()) {
    if (std::ranges::find(kOfFirstPoints, axis.name) == kOfFirstPoints.end()) {
      others.push_back(axis);
    }
  }
  return others;
}

}  // namespace

namespace {

/// None where all CTAs run at once: the second band would wait for the first from the start. None
/// for wide heads of their own keys either: each band streams Q and dO again, which costs up to 8 %
/// there.
int bands_of(const AttentionBackwardProblem& problem, const V& v, int sm_count) {
  const bool single = problem.batch * problem.heads_kv == 1 && !v.last_kv_first;
  const bool at_once = v.parts * whole_walks(problem, v) <= sm_count;
  const bool wide = has_wide_heads(problem) && problem.heads_q == problem.heads_kv;
  return single || at_once || wide ? 1 : usual_bands(kv_tiles_of(problem, v));
}

/// What to take of two legal variants where nothing is known. Chips with this much shared memory
/// have tensor cores that outrun it, so the tiles that read least of it for a pair of a row and a
/// key are the fastest; on the others tensor cores bind, and all tiles keep them equally busy.
bool reads_less(const AttentionBackwardProblem& problem, const V& left, const V& right,
                const DeviceInfo& device) {
  const auto bytes_of_pair = [&](const V& v) {
    const KeyPassConfig key = std::get<AttentionBackwardConfig>(config_of(problem, v)).key;
    return key_step_smem_bytes(key) / (key.tile_m * key.tile_n);
  };
  return device.smem_per_cta_bytes >= backward::kLargeSmemBytes &&
         left.family == Family::portable && bytes_of_pair(left) < bytes_of_pair(right);
}

/// The best legal variant of a family with offered tiles: the first, unless another reads less.
std::optional<V> best_legal(Family family, DqSum sum, const AttentionBackwardProblem& problem,
                            const DeviceInfo& device) {
  std::optional<V> best;
  for (V variant : forms_and_tiles(family, problem)) {
    if (variant.dq_sum != sum) {
      continue;
    }
    if (family == Family::hopper) {
      variant.parts = usual_parts(problem, variant, device);
    }
    if (family == Family::hopper && sum == DqSum::ordered) {
      variant.last_kv_first = problem.causal;
      variant.bands = bands_of(problem, variant, device.sm_count);
    }
    variant.wide_adds = family == Family::portable && sum == DqSum::atomic && device.sm_arch >= 90;
    if (!broken_constraint(problem, variant, device) &&
        (!best || reads_less(problem, variant, *best, device))) {
      best = variant;
    }
  }
  return best;
}

struct Choice {
  Family family;
  DqSum sum;
};

/// True where the walks of a group's query heads push each other out of L2: who waits for DRAM is
/// waited for. Where Q, dO and sums of a group take at most two fifths of L2, in turn has 1.00 to
/// 1.07 of the rate of atomic sums, from four fifths on 0.87 to 0.97
/// (experiments/attention_backward/finish.md).
bool exceeds_l2(const AttentionBackwardProblem& problem, const DeviceInfo& device) {
  const V whole = with_hopper_tiles({}, problem);
  constexpr int kOneCta = 1;
  const double of_group = bytes_walked_together(problem, whole, kOneCta);
  return group_of(problem) > 1 && whole_walks(problem, whole) > device.sm_count &&
         !stays_in_l2(problem, whole, device) &&
         2.5 * of_group > static_cast<double>(device.l2_bytes);
}

/// What to take, the first that is legal. In turn is 4 % faster than atomic too, in the mean of
/// eight shapes up to head_dim 128 on an H200; for wide heads it has 0.68 to 0.83 of it
/// (experiments/attention_backward).
std::span<const Choice> choices_of(const AttentionBackwardProblem& problem,
                                   const DeviceInfo& device) {
  static constexpr std::array kUsual{Choice{Family::hopper, DqSum::ordered},
                                     Choice{Family::hopper, DqSum::atomic},
                                     Choice{Family::portable, DqSum::atomic}};
  static constexpr std::array kDeterministic{Choice{Family::hopper, DqSum::ordered},
                                             Choice{Family::hopper, DqSum::none},
                                             Choice{Family::portable, DqSum::none}};
  if (problem.deterministic) {
    return kDeterministic;
  }
  const bool adds = has_wide_heads(problem) || exceeds_l2(problem, device);
  return std::span(kUsual).subspan(adds ? 1 : 0);
}

}  // namespace

/// Hopper kernels where they are legal. Two passes kept 0.73 of the atomic kernel of the portable
/// family on an H200, turns 0.34; of the hopper family two passes kept 0.45 to 0.50
/// (experiments/attention_backward).
V default_variant(const AttentionBackwardProblem& problem, const DeviceInfo& device) {
  for (const auto& [family, sum] : choices_of(problem, device)) {
    if (const std::optional<V> variant = best_legal(family, sum, problem, device)) {
      return *variant;
    }
  }
  return forms_and_tiles(Family::portable, problem).front();
}

std::vector<Variant> points_of(Family family, const AttentionBackwardProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options) {
  const std::vector<Axis> axes = axes_to_enumerate();
  const auto usual = [&](const Variant& variant, std::string_view axis) {
    return usual_values(problem, device, variant.as<V>(), axis);
  };
  std::vector<Variant> all;
  for (const V& first : first_points(family, problem, options)) {
    if (!is_allowed(first, options)) {
      continue;
    }
    for (const Variant& variant : every_choice(first, axes, options, usual)) {
      append_unique(all, variant);
    }
  }
  return all;
}

}  // namespace swr
