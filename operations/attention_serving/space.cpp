// SPDX-License-Identifier: MIT
// Axes, rules and the points that are enumerated.
#include "core/constraint_rules.h"
#include "core/field_builders.h"
#include "generator/expansion.h"
#include "operations/attention_fields.h"
#include "operations/attention_serving/parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kKvSources{"rows"sv, "pages"sv};
constexpr std::array kPageCopies{"row"sv, "run16"sv};
constexpr std::array kDeals{"whole"sv, "ranges"sv, "direct"sv};
constexpr std::array kItemOrders{"as_given"sv, "longest_first"sv, "folded"sv};

int group_of(const ServingAttentionProblem& problem) { return problem.heads_q / problem.heads_kv; }
/// So few query rows that memory decides.
bool is_decode(const ServingAttentionProblem& problem) {
  constexpr int kMostRows = 64;
  return 1LL * problem.seq_q * group_of(problem) <= kMostRows;
}

struct Candidate {
  const ServingAttentionProblem& problem;
  const ServingAttentionVariant& variant;
  const DeviceInfo& device;
  ServingFamilyConfig config;

  /// Of kernels whose threads copy K and V.
  const ServingAttentionConfig* copying() const {
    return std::get_if<ServingAttentionConfig>(&config);
  }
  /// Of the Hopper family's whole Q tiles.
  const HopperServingConfig* hopper() const { return std::get_if<HopperServingConfig>(&config); }
  bool is_warpgroup_in_parts() const {
    return variant.family == Family::hopper && variant.deal != Deal::whole;
  }
};

Reason hopper_tile_shape(const ServingAttentionVariant& variant) {
  if (variant.tile_m != 64 && variant.tile_m != 128) {
    return "tile_m " + text(variant.tile_m) +
           " is not 64 rows for each of one or two warpgroups; three leave no warp that finds work";
  }
  if (16 * variant.warps != variant.tile_m) {
    return text(variant.warps) + " warps do not compute " + text(variant.tile_m) +
           " rows at 16 each";
  }
  return unless(variant.tile_n % 16 == 0 && variant.tile_n <= 256,
                "tile_n " + text(variant.tile_n) + " is no multiple of 16 up to 256");
}

Reason tile_shape(const Candidate& c) {
  if (c.variant.family == Family::hopper) {
    return c.is_warpgroup_in_parts() && c.variant.tile_m != 64
               ? Reason("one warpgroup has 64 rows of Q, not " + text(c.variant.tile_m))
               : hopper_tile_shape(c.variant);
  }
  const PortableAttentionConfig qk = c.copying()->qk();
  const int rows = 16 * qk.warps;
  if (qk.tile_m % 16 != 0 || (qk.tile_m % rows != 0 && rows % qk.tile_m != 0)) {
    return text(qk.warps) + " warps do not divide into the blocks of 16 rows of tile_m " +
           text(qk.tile_m);
  }
  return unless(qk.tile_n % (16 * qk.key_groups()) == 0,
                "tile_n " + text(qk.tile_n) + " is no multiple of 16 keys times the " +
                    text(qk.key_groups()) + " warps that share a block of rows");
}

Reason look_ups(const Candidate& c) {
  const ServingAttentionConfig* const config = c.copying();
  return config == nullptr
             ? Reason{}
             : unless(!config->has_pages() || config->threads() >= config->runs_per_tile(),
                      text(config->threads()) + " threads cannot look up the " +
                          text(config->runs_per_tile()) + " runs of a tile at once");
}

/// What the Hopper family leaves to the portable one.
Reason hopper_features(const Candidate& c) {
  if (c.variant.family != Family::hopper) {
    return std::nullopt;
  }
  if (c.is_warpgroup_in_parts() && !HopperServingConfig::can_have_whole_boxes(c.problem.head_dim)) {
    return "threads do not fill panels past head_dim " + text(c.problem.head_dim) +
           ", which is no multiple of 32";
  }
  if (c.hopper() != nullptr && c.problem.mask == ServingMask::window &&
      !c.hopper()->has_whole_boxes()) {
    return "boxes of one panel cannot leave out rows on the left of a window; head_dim " +
           text(c.problem.head_dim) + " is no multiple of 32, so that its panels are not full";
  }
  return unless(
      c.problem.head_dim == c.problem.head_dim_v,
      "head_dim_v " + text(c.problem.head_dim_v) + " is not head_dim " + text(c.problem.head_dim));
}

Reason hopper_dealing(const Candidate& c) {
  const Mainloop usual = ServingAttentionVariant{}.mainloop;
  if (c.is_warpgroup_in_parts() && c.variant.mainloop != usual) {
    return "main loops are of whole Q tiles";
  }
  return unless(c.hopper() == nullptr || !c.variant.pack_gqa, "boxes hold rows of one query head");
}

Reason page_boxes(const Candidate& c) {
  constexpr int kSwizzledRows = 8;
  const HopperServingConfig* const config = c.hopper();
  if (config == nullptr || !config->has_pages()) {
    return std::nullopt;
  }
  if (c.problem.leftpad) {
    return "boxes of pages begin at the first key";
  }
  return unless(config->piece_rows % kSwizzledRows == 0,
                "no multiple of 8 rows divides both pages of " + text(c.problem.page_size) +
                    " rows and tiles of " + text(c.variant.tile_n));
}

Reason page_copy(const Candidate& c) {
  constexpr int kRun = 16;
  if (c.variant.page_copy == PageCopy::row) {
    return std::nullopt;
  }
  if (c.problem.page_size == 0 || c.problem.page_size % kRun != 0) {
    return "pages of " + text(c.problem.page_size) + " rows are no runs of 16";
  }
  return unless(!c.problem.leftpad, "runs of 16 rows begin at the first key");
}

int accumulator_registers(const ServingAttentionConfig& config) {
  const int scores = config.qk().m_blocks() * config.qk().warp_keys() / 2;
  return scores + config.pv().m_blocks() * config.head_dim_v / 2;
}
int accumulator_registers(const HopperServingConfig& config) {
  return config.dense().accumulator_registers();
}
int register_limit(const ServingAttentionConfig& config) { return config.qk().register_limit(); }
int register_limit(const HopperServingConfig& config) {
  return config.dense().trades_registers() ? config.consumer_registers()
                                           : config.dense().entry_registers();
}

Reason registers(const Candidate& c) {
  constexpr int kOperandRegisters = 30;
  const int needed =
      kOperandRegisters +
      std::visit([](const auto& config) { return accumulator_registers(config); }, c.config);
  const int limit = std::visit([](const auto& config) { return register_limit(config); }, c.config);
  return unless(needed <= limit, "scores and output alone need about " + text(needed) +
                                     " registers per thread of " + text(limit));
}

Reason ranges(const Candidate& c) {
  const ServingAttentionVariant usual;
  if (c.variant.deal != Deal::ranges && c.variant.item_overhead != usual.item_overhead) {
    return "item_overhead belongs to ranges";
  }
  if (c.variant.deal != Deal::whole) {
    return unless(c.variant.persistence == Persistence::grid,
                  "parts of the keys are dealt to CTAs of their own number");
  }
  return unless(c.variant.least_units == usual.least_units,
                "least_units belongs to ranges and to direct parts");
}

Reason drawing(const Candidate& c) {
  if (c.variant.persistence != Persistence::dynamic) {
    return std::nullopt;
  }
  if (c.hopper() == nullptr) {
    return "CTAs of the portable family do not draw";
  }
  return unless(c.variant.order != Order::sawtooth,
                "which way a Q tile is walked would depend on who drew it");
}

Reason worker_count(const Candidate& c) {
  return c.variant.deal != Deal::whole ? Reason{}
                                       : misses_workers(c.variant.workers, c.variant.persistence);
}

Reason local_iterations(const Candidate& c) {
  const bool one = c.variant.deal == Deal::whole && c.variant.persistence == Persistence::grid;
  return unless(c.variant.order != Order::sawtooth || !one,
                "one Q tile per CTA has a single iteration, so sawtooth equals cyclic");
}

Reason pack_gqa(const Candidate& c) {
  return unless(!c.variant.pack_gqa || group_of(c.problem) > 1,
                "every query head has K and V of its own, so there is nothing to pack");
}

Reason sections(const Candidate& c) {
  const int heads = c.variant.pack_gqa ? c.problem.heads_kv : c.problem.heads_q;
  return unless(c.variant.section_heads <= heads,
                "a sequence has " + text(heads) + " heads, fewer than a section");
}

Reason folding(const Candidate& c) {
  return unless(c.variant.item_order != ItemOrder::folded || c.problem.mask != ServingMask::full,
                "without a mask all Q tiles of a sequence are as long");
}

using Rule = Constraint<Candidate>;

constexpr std::array kRules{
    Rule{{"architecture", "The family's instructions exist on the chip."},
         [](const Candidate& c) { return lacks_instructions(c.variant.family, c.device); }},
    Rule{{"tile_shape", "Warps own whole blocks of 16 rows or share one; keys come in 16s."},
         tile_shape},
    Rule{{"threads", "A CTA has at most 1024 threads."},
         [](const Candidate& c) {
           return exceeds_threads(threads_of(c.problem, c.variant), c.device);
         }},
    Rule{{"family_axes", "Axes of other families keep their default."},
         [](const Candidate& c) { return sets_axes_of_other_families(c.variant); }},
    Rule{{"hopper_features",
          "The Hopper family has one head_dim, and windows where its panels are full."},
         hopper_features},
    Rule{{"hopper_dealing",
          "Whole Q tiles of the Hopper family are of one query head; they alone have main loops."},
         hopper_dealing},
    Rule{{"page_boxes", "Boxes of whole groups of 8 rows divide pages and tiles."}, page_boxes},
    Rule{{"look_ups", "Every page of a tile has a thread that looks it up."}, look_ups},
    Rule{{"page_copy", "Runs of 16 rows lie in one page."}, page_copy},
    Rule{{"ranges", "Axes of one way of dealing keep their default in the other."}, ranges},
    Rule{{"drawing", "The Hopper family draws Q tiles, in one direction of keys."}, drawing},
    Rule{{"worker_count", "Workers are counted where they are not one a Q tile."}, worker_count},
    Rule{{"local_iterations", "Sawtooth needs several Q tiles per CTA."}, local_iterations},
    Rule{{"pack_gqa", "Packing needs query heads that share K and V."}, pack_gqa},
    Rule{{"sections", "Sections hold heads of one sequence."}, sections},
    Rule{{"folding", "Q tiles are folded where a mask makes them unequal."}, folding},
    Rule{{"shared_memory", "Q tile, stages and the list of sequences fit the opt-in limit."},
         [](const Candidate& c) {
           return exceeds_shared_memory(smem_bytes_of(c.problem, c.variant), c.device);
         }},
    Rule{{"registers", "Scores and output fit the register file."}, registers},
};
constexpr auto kInfos = all_infos(kRules);

// Tiles that scripts/serving_registers compiles without spills on every chip, the default's among
// them: what is stored was then compared with it.
constexpr std::array kDecodeTilesTo128{
    Tile{.tile_m = 16, .tile_n = 64, .warps = 4}, Tile{.tile_m = 16, .tile_n = 128, .warps = 4},
    Tile{.tile_m = 16, .tile_n = 128, .warps = 8}, Tile{.tile_m = 32, .tile_n = 64, .warps = 4},
    Tile{.tile_m = 64, .tile_n = 64, .warps = 8}};
constexpr std::array kDecodeTilesBeyond{Tile{.tile_m = 16, .tile_n = 64, .warps = 4},
                                        Tile{.tile_m = 64, .tile_n = 32, .warps = 4}};
constexpr std::array kTilesTo64{
    Tile{.tile_m = 128, .tile_n = 64, .warps = 4}, Tile{.tile_m = 128, .tile_n = 64, .warps = 8},
    Tile{.tile_m = 128, .tile_n = 128, .warps = 8}, Tile{.tile_m = 64, .tile_n = 64, .warps = 4}};
constexpr std::array kTilesTo128{Tile{.tile_m = 64, .tile_n = 64, .warps = 4},
                                 Tile{.tile_m = 128, .tile_n = 64, .warps = 8},
                                 Tile{.tile_m = 128, .tile_n = 128, .warps = 8}};
constexpr std::array kTilesTo192{Tile{.tile_m = 64, .tile_n = 64, .warps = 4},
                                 Tile{.tile_m = 128, .tile_n = 64, .warps = 8}};
constexpr std::array kTilesBeyond{Tile{.tile_m = 64, .tile_n = 32, .warps = 4},
                                  Tile{.tile_m = 128, .tile_n = 64, .warps = 8}};

// Of the Hopper family, those that leave room for the list of sequences.
constexpr std::array kHopperTilesTo64{Tile{.tile_m = 128, .tile_n = 128},
                                      Tile{.tile_m = 128, .tile_n = 160}};
constexpr std::array kHopperTilesTo128{Tile{.tile_m = 128, .tile_n = 96},
                                       Tile{.tile_m = 128, .tile_n = 128},
                                       Tile{.tile_m = 128, .tile_n = 144}};
constexpr std::array kHopperTilesTo192{Tile{.tile_m = 128, .tile_n = 64},
                                       Tile{.tile_m = 128, .tile_n = 80}};
constexpr std::array kHopperTilesBeyond{Tile{.tile_m = 128, .tile_n = 64}};
// In parts of the keys, by one warpgroup.
constexpr std::array kWarpgroupTilesTo128{Tile{.tile_m = 64, .tile_n = 64, .warps = 4},
                                          Tile{.tile_m = 64, .tile_n = 128, .warps = 4}};
constexpr std::array kWarpgroupTilesBeyond{Tile{.tile_m = 64, .tile_n = 32, .warps = 4},
                                           Tile{.tile_m = 64, .tile_n = 64, .warps = 4}};

std::span<const Tile> hopper_tiles(const ServingAttentionProblem& problem) {
  const int columns = problem.head_dim;
  if (is_decode(problem)) {
    return columns <= 128 ? std::span<const Tile>(kWarpgroupTilesTo128) : kWarpgroupTilesBeyond;
  }
  return columns <= 64    ? std::span<const Tile>(kHopperTilesTo64)
         : columns <= 128 ? std::span<const Tile>(kHopperTilesTo128)
         : columns <= 192 ? std::span<const Tile>(kHopperTilesTo192)
                          : std::span<const Tile>(kHopperTilesBeyond);
}

std::span<const Tile> usual_tiles(Family family, const ServingAttentionProblem& problem) {
  if (family == Family::hopper) {
    return hopper_tiles(problem);
  }
  const int columns = std::max(problem.head_dim, problem.head_dim_v);
  if (is_decode(problem)) {
    return columns <= 128 ? std::span<const Tile>(kDecodeTilesTo128) : kDecodeTilesBeyond;
  }
  return columns <= 64    ? std::span<const Tile>(kTilesTo64)
         : columns <= 128 ? std::span<const Tile>(kTilesTo128)
         : columns <= 192 ? std::span<const Tile>(kTilesTo192)
                          : std::span<const Tile>(kTilesBeyond);
}

/// Heads whose longest Q tiles start together. Under a causal mask tiles differ in length, and one
/// head after another would leave long ones to the end; of many K and V heads few CTAs would read
/// the same keys at a time.
int usual_section_heads(const ServingAttentionProblem& problem) {
  constexpr int kMostKvHeads = 16;
  return problem.mask == ServingMask::causal
             ? std::min(problem.heads_q, kMostKvHeads * group_of(problem))
             : 1;
}

/// Keys that a CTA streams at least where there are few: more parts cost more than they spare
/// (experiments/attention_serving).
int usual_least_units(int tile_n) {
  constexpr int kKeys = 512;
  return std::max(1, kKeys / tile_n);
}

/// What is enumerated of an axis that is not restricted; `variant` has those before it.
Values usual_values(const ServingAttentionProblem& problem, const DeviceInfo& device,
                    const ServingAttentionVariant& variant, std::string_view axis) {
  const bool decodes = is_decode(problem);
  const bool is_hopper = variant.family == Family::hopper;
  const bool in_parts = variant.deal != Deal::whole;
  const bool repeats = in_parts || is_persistent(variant.persistence);
  const bool packs = group_of(problem) > 1 && (!is_hopper || in_parts);
  const bool has_runs = problem.page_size > 0 && problem.page_size % 16 == 0 && !problem.leftpad;
  const bool is_causal = problem.mask != ServingMask::full;
  const long long units = usual_least_units(variant.tile_n);
  const Values one_item_order{std::string(in_parts ? "as_given" : "longest_first")};
  const std::map<std::string_view, Values> all{
      {"family", {std::string(to_string(variant.family))}},
      {"stages", is_hopper ? Values{2LL, 3LL} : Values{1LL, 2LL, 3LL}},
      {"deal", is_hopper && !decodes
                   ? Values{std::string("whole")}
                   : Values{std::string(decodes ? "direct" : "whole"), std::string("ranges")}},
      {"persistence", in_parts    ? Values{std::string("grid")}
                      : is_hopper ? Values{std::string("snake"), std::string("dynamic")}
                                  : Values{std::string("grid"), std::string("persistent")}},
      {"order", decodes || !repeats || variant.persistence == Persistence::dynamic
                    ? Values{std::string("cyclic")}
                    : Values{std::string("cyclic"), std::string("sawtooth")}},
      {"workers", in_parts ? Values{0LL, 1LL * device.sm_count} : Values{0LL}},
      {"pack_gqa", !packs    ? Values{std::string("off")}
                   : decodes ? Values{std::string("on")}
                             : texts(kSwitches)},
      {"page_copy", has_runs && !is_hopper ? texts(kPageCopies) : Values{std::string("row")}},
      {"item_order",
       in_parts && is_causal && !decodes ? Values{std::string("folded")} : one_item_order},
      {"section_heads", {is_hopper && !in_parts ? 1LL * usual_section_heads(problem) : 1LL}},
      {"item_overhead", in_parts && !decodes ? Values{1LL, 2LL} : Values{1LL}},
      {"least_units", variant.deal == Deal::direct ? Values{2LL, 4LL}
                      : in_parts                   ? Values{1LL, units}
                                                   : Values{1LL}},
      {"mainloop", is_hopper && !in_parts
                       ? Values{std::string("mutex"), std::string("overlap_ordered")}
                       : Values{std::string("overlap_ordered")}}};
  return all.at(axis);
}

/// Those that others depend on come first.
std::vector<Axis> axes_to_enumerate() {
  std::vector<Axis> ordered;
  for (const std::string_view first : {"deal"sv, "persistence"sv}) {
    ordered.push_back(axis_named(serving_attention_operation(), first));
  }
  for (const Axis& axis : serving_attention_axes()) {
    const bool is_tile = axis.name == "tile_m" || axis.name == "tile_n" || axis.name == "warps";
    if (!is_tile && axis.name != "deal" && axis.name != "persistence") {
      ordered.push_back(axis);
    }
  }
  return ordered;
}

int usual_warps(int tile_m) { return tile_m >= 128 ? 8 : 4; }

/// Prompts that the Hopper family serves by default: of heads that have run on a GPU, with boxes of
/// so many rows that asking for them does not bound. Fewer queries leave most of a Q tile empty.
bool suits_hopper(const ServingAttentionProblem& problem, const HopperServingConfig& config) {
  constexpr int kLeastQueries = 128;
  constexpr int kLeastHeadDim = 64;
  constexpr int kLeastRows = 16;
  return problem.seq_q >= kLeastQueries && problem.head_dim >= kLeastHeadDim &&
         config.piece_rows >= kLeastRows;
}

/// K and V tiles of 128 rows, as a Q tile has, so that masks and windows end at tiles; of wide
/// heads as many rows as shared memory admits. At head_dim 64 a third stage fits: behind it hide
/// the copies that lanes make of what a window or a sequence's end cuts.
ServingAttentionVariant hopper_prefill(const ServingAttentionProblem& problem) {
  const int head_dim = problem.head_dim;
  const bool is_narrow = head_dim <= 64;
  return {.family = Family::hopper,
          .tile_m = 128,
          .tile_n = head_dim <= 128   ? 128
                    : head_dim <= 192 ? 80
                                      : 64,
          .warps = 8,
          .stages = is_narrow ? 3 : 2,
          .persistence = Persistence::dynamic,
          .deal = Deal::whole,
          .item_order = ItemOrder::longest_first,
          .section_heads = usual_section_heads(problem)};
}

/// What took least on an H100 and an H200 (experiments/vllm): warps that share rows where there are
/// few or many, a warpgroup that multiplies 64 where a chip has such, and a third stage where CTAs
/// of 8 warps in all have room for it. One sequence alone, with no longer ones beside it, is dealt
/// directly, in so many parts that a warpgroup alone adds them up too slowly.
ServingAttentionVariant decode(const ServingAttentionProblem& problem, const DeviceInfo& device) {
  const int rows = problem.seq_q * group_of(problem);
  const bool wide = std::max(problem.head_dim, problem.head_dim_v) > 128;
  ServingAttentionVariant variant{.tile_m = rows <= 16            ? 16
                                            : rows <= 32 && !wide ? 32
                                                                  : 64,
                                  .stages = 3,
                                  .pack_gqa = group_of(problem) > 1,
                                  .deal = problem.batch == 1 ? Deal::direct : Deal::ranges};
  variant.tile_n = variant.tile_m == 64 && wide ? 32 : 64;
  variant.warps = variant.tile_m == 64 && !wide ? 8 : 4;
  if (variant.tile_m == 64 && variant.deal == Deal::ranges) {
    ServingAttentionVariant of_warpgroup = variant;
    of_warpgroup.family = Family::hopper;
    of_warpgroup.warps = 4;
    if (!broken_constraint(problem, of_warpgroup, device)) {
      variant = of_warpgroup;
    }
  }
  variant.least_units = variant.deal == Deal::ranges ? usual_least_units(variant.tile_n)
                        : variant.tile_m == 16       ? 2
                                                     : 4;
  const int ctas = 8 / variant.warps;
  const int smem = smem_bytes_of(problem, variant) - list_bytes(kListEntries) +
                   list_bytes(problem.batch) + device.smem_reserved_per_cta_bytes;
  // Of few rows in ranges CTAs of two stages do as well, three of them an SM.
  if (ctas * smem > device.smem_per_sm_bytes ||
      (variant.deal == Deal::ranges && variant.tile_m < 64)) {
    variant.stages = 2;
  }
  return variant;
}

/// Rows of Q as many as registers, and in one stage shared memory, admit.
ServingAttentionVariant portable_prefill(const ServingAttentionProblem& problem,
                                         const DeviceInfo& device) {
  const bool is_wide = std::max(problem.head_dim, problem.head_dim_v) > 192;
  ServingAttentionVariant variant{.tile_m = is_wide ? 64 : 128,
                                  .tile_n = is_wide ? 32 : 64,
                                  .stages = 1,
                                  .persistence = Persistence::persistent,
                                  .deal = Deal::whole,
                                  .item_order = ItemOrder::longest_first};
  variant.warps = usual_warps(variant.tile_m);
  if (smem_bytes_of(problem, variant) > device.smem_per_cta_bytes) {
    variant.tile_m = 64;
    variant.warps = usual_warps(variant.tile_m);
  }
  variant.stages = ServingAttentionVariant{}.stages;
  return variant;
}

}  // namespace

std::string_view to_string(KvSource value) { return enum_text(kKvSources, value); }
std::string_view to_string(PageCopy value) { return enum_text(kPageCopies, value); }
std::string_view to_string(Deal value) { return enum_text(kDeals, value); }

std::span<const Axis> serving_attention_axes() {
  using V = ServingAttentionVariant;
  constexpr int kMostTile = 1024;
  constexpr int kMostCount = 1 << 20;
  constexpr int kMostUnits = 1 << 12;
  static const std::array axes{
      choice_axis(&V::family, kFamilies, "family", "Kernel family."),
      integer_axis(&V::tile_m, 1, kMostTile, "tile_m", "Q rows per tile."),
      integer_axis(&V::tile_n, 1, kMostTile, "tile_n", "K and V rows per tile."),
      integer_axis(&V::warps, 1, 32, "warps", "Warps per CTA that compute."),
      integer_axis(&V::stages, 1, 4, "stages", "K and V tiles held in shared memory."),
      choice_axis(&V::order, kOrders, "order", "Direction in which K and V are streamed."),
      choice_axis(&V::persistence, kPersistences, "persistence",
                  "How Q tiles are assigned to CTAs."),
      integer_axis(&V::workers, 0, kMostCount, "workers",
                   "CTAs of a persistent launch; 0 fills every resident slot."),
      switch_axis(&V::pack_gqa, "pack_gqa", "Query heads that share a K and V head share Q tiles."),
      choice_axis(&V::deal, kDeals, "deal",
                  "How work is divided: whole Q tiles, equal ranges of keys, or by index."),
      choice_axis(&V::page_copy, kPageCopies, "page_copy",
                  "Rows copied per look-up in the page table.", Family::portable),
      choice_axis(&V::item_order, kItemOrders, "item_order", "Order in which Q tiles start."),
      integer_axis(&V::section_heads, 1, kMostCount, "section_heads", "Heads per section."),
      integer_axis(&V::item_overhead, 0, kMostUnits, "item_overhead",
                   "Assumed cost of starting a Q tile, in tiles of keys."),
      integer_axis(&V::least_units, 1, kMostUnits, "least_units", "Fewest tiles of keys per CTA."),
      later(choice_axis(&V::mainloop, kAttentionMainloops, "mainloop",
                        "How matrix products and softmax overlap.", Family::hopper))};
  return axes;
}

std::span<const ConstraintInfo> serving_attention_constraints() { return kInfos; }

ServingAttentionVariant default_variant(const ServingAttentionProblem& problem,
                                        const DeviceInfo& device) {
  const ServingAttentionVariant hopper = hopper_prefill(problem);
  if (suits_hopper(problem, std::get<HopperServingConfig>(config_of(problem, hopper))) &&
      !broken_constraint(problem, hopper, device)) {
    return hopper;
  }
  ServingAttentionVariant variant;
  if (is_decode(problem)) {
    variant = decode(problem, device);
  } else {
    variant = portable_prefill(problem, device);
  }
  while (variant.stages > 1 && smem_bytes_of(problem, variant) > device.smem_per_cta_bytes) {
    --variant.stages;
  }
  return variant;
}

std::optional<BrokenConstraint> broken_constraint(const ServingAttentionProblem& problem,
                                                  const ServingAttentionVariant& variant,
                                                  const DeviceInfo& device) {
  return first_broken(kRules, Candidate{problem, variant, device, config_of(problem, variant)});
}

std::vector<Variant> points_of(Family family, const ServingAttentionProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options) {
  const std::vector<Axis> axes = axes_to_enumerate();
  const std::span<const Tile> tiles =
      options.tiles.empty() ? usual_tiles(family, problem) : std::span<const Tile>(options.tiles);
  std::vector<Variant> all;
  for (const Tile& tile : tiles) {
    ServingAttentionVariant first;
    first.family = family;
    first.tile_m = tile.tile_m;
    first.tile_n = tile.tile_n;
    first.warps = tile.warps > 0 ? tile.warps : usual_warps(tile.tile_m);
    const auto usual = [&](const Variant& variant, std::string_view axis) {
      return usual_values(problem, device, variant.as<ServingAttentionVariant>(), axis);
    };
    for (const Variant& variant : every_choice(first, axes, options, usual)) {
      append_unique(all, variant);
    }
  }
  return all;
}

std::string tile_text_of(const ServingAttentionVariant& variant) {
  return text(variant.tile_m) + "x" + text(variant.tile_n) + "x" + text(variant.warps);
}

ServingAttentionVariant kernel_choices(ServingAttentionVariant variant) {
  const ServingAttentionVariant usual;
  variant.workers = usual.workers;
  variant.item_order = usual.item_order;
  variant.section_heads = usual.section_heads;
  variant.item_overhead = usual.item_overhead;
  variant.least_units = usual.least_units;
  return variant;
}

ServingAttentionVariant in_usual_tile_order(ServingAttentionVariant variant) {
  variant.item_order = ItemOrder::as_given;
  variant.section_heads = 1;
  return variant;
}

}  // namespace swr
