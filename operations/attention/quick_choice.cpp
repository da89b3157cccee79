// SPDX-License-Identifier: MIT
// Which variant to take where nothing near was measured, and about how long one takes: a closed
// form over shape and device. The model (operations/attention/model) knows far more and takes far
// longer; this one must answer while a program waits for its first launch.
//
// The numbers are fitted to recordings of an H200 (experiments/right_answers). Elsewhere the rates
// of tensor cores are those of the architecture, and only ratios of times are to be believed.
#include "core/architectures.h"
#include "operations/attention/config.h"
#include "operations/attention/parts.h"
#include "operations/attention/space.h"
#include "operations/quick_rates.h"
#include "templates/common/cta_schedule.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace swr {
namespace {

/// What an SM takes from L2 in a clock.
constexpr double kL2BytesPerClock = 32.0;
/// From a request to its data.
constexpr double kLatencyUs = 0.9;

constexpr double kLaunchUs = 2.5;
constexpr double kCombineUs = 1.5;

// Hopper family.
/// Until the first product: descriptors of tensors, barriers, the ticket of a tile, one CTA to an
/// SM.
constexpr double kHopperStartUs = 1.2;
constexpr double kWgmmaScoresPerClock = 1024.0;  ///< Times head_dim.
constexpr double kProductFactor = 1.12;
constexpr double kSoftmaxClocksPerScore = 0.0977;
constexpr double kThreeConsumersFactor = 0.87;
constexpr double kLoneConsumerFactor = 1.3;
constexpr double kNoOverlapFactor = 1.15;
constexpr double kHopperStepClocks = 60.0;
constexpr double kHopperTileClocks = 900.0;

// Portable family.
constexpr double kMmaFactor = 1.34;
constexpr double kMmaFactorPerColumn = 1.0 / 400.0;  ///< Of head_dim beyond 128.
constexpr double kPortableSoftmaxClocksPerScore = 0.06;
constexpr double kHalfWarpRowsFactor = 1.05;  ///< 16 rows to a warp read K and V twice as often.
constexpr double kConflictsFactor = 2.0;
/// Warps that the schedulers of an SM cannot share evenly.
constexpr double kOddWarpsFactor = 2.0;
constexpr double kPortableStepClocks = 40.0;
/// Barrier, product, maximum, exponential and product of four warps, one after the other.
constexpr double kPortableChainClocks = 450.0;
/// Of one stage: a tile is asked for when the one ahead is used up.
constexpr double kExposedCopyClocks = 150.0;
constexpr double kPortableTileClocks = 950.0;

/// The work of a launch in steps over tiles of K and V.
struct Steps {
  double tiles = 0.0;  ///< Q tiles of all heads, and splits.
  double all = 0.0;    ///< Of all tiles.
  double longest = 0.0;
  double shortest = 0.0;
  double kv_rows = 0.0;  ///< Rows of K that all tiles read, and as many of V.
};

/// The mean over the Q tiles of a causal head that see keys: each sees tile_rows keys more than the
/// one ahead, the last one all. A tile of K and V that the mask cuts is computed whole.
double mean_causal_steps(double before, double tile_rows, double tiles, int tile_n,
                         double longest) {
  const int divisor = std::gcd(std::max(1, static_cast<int>(tile_rows)), tile_n);
  const double cut = 0.5 * (1.0 - static_cast<double>(divisor) / tile_n);
  const double mean_but_last = (before + tile_rows * tiles / 2) / tile_n + cut;
  return ((tiles - 1) * std::min(mean_but_last, longest) + longest) / tiles;
}

Steps steps_of(const AttentionProblem& problem, const AttentionVariant& variant) {
  const int packed = variant.pack_gqa ? problem.heads_q / problem.heads_kv : 1;
  const double heads = static_cast<double>(problem.batch) * problem.heads_q / packed;
  const double tile_rows = static_cast<double>(variant.tile_m) / packed;
  const double tile_n = variant.tile_n;
  const double all_tiles = std::ceil(problem.seq_q / tile_rows);
  Steps steps;
  double first_keys = problem.seq_kv;
  double busy_tiles = all_tiles;
  const double before = std::max(0, problem.seq_kv - problem.seq_q);
  if (problem.causal) {
    busy_tiles = std::ceil(std::min(problem.seq_q, problem.seq_kv) / tile_rows);
    first_keys = std::min<double>(problem.seq_kv, before + tile_rows);
  }
  steps.longest = std::ceil(problem.seq_kv / tile_n);
  steps.shortest = std::ceil(first_keys / tile_n);
  const double mean = problem.causal ? mean_causal_steps(before, tile_rows, busy_tiles,
                                                         variant.tile_n, steps.longest)
                                     : steps.longest;
  const double splits = variant.kv_splits;
  steps.tiles = heads * all_tiles * splits;
  steps.all = heads * busy_tiles * mean;
  steps.longest = std::ceil(steps.longest / splits);
  steps.shortest = std::ceil(steps.shortest / splits);
  if (splits > 1) {
    steps.all = std::max(steps.all, heads * busy_tiles * splits * steps.shortest);
  }
  steps.kv_rows = steps.all * tile_n;
  return steps;
}

/// Compulsory bytes that a warm L2 does not hold.
double dram_bytes(const AttentionProblem& problem, const DeviceInfo& device) {
  const CompulsoryBytes compulsory = compulsory_bytes(problem);
  const auto bytes = static_cast<double>(compulsory.read + compulsory.write);
  const auto l2_bytes = static_cast<double>(device.l2_bytes);
  return bytes * std::clamp((bytes - 0.5 * l2_bytes) / (0.3 * l2_bytes), 0.0, 1.0);
}

/// Up to so many keys sections of heads pay, whatever memory does.
constexpr int kShortSection = 2048;

struct CtaCosts {
  double step_clocks = 0.0;
  /// Of a step beside its work: what waits for what, hidden where other CTAs or warps work.
  double chain_clocks = 0.0;
  double tile_clocks = 0.0;
  int ctas_per_sm = 1;
  double bytes_in_flight = 0.0;  ///< Of one CTA.

  /// A step of each of so many CTAs of an SM.
  double clocks_of_steps(double ctas) const {
    return std::max(ctas * step_clocks, step_clocks + chain_clocks);
  }
};

CtaCosts hopper_costs(const AttentionProblem& problem, const AttentionVariant& variant) {
  const double scores = static_cast<double>(variant.tile_m) * variant.tile_n;
  const double products = kProductFactor * scores * problem.head_dim / kWgmmaScoresPerClock;
  const double softmax = scores * kSoftmaxClocksPerScore;
  double factor = variant.tile_m == 192  ? kThreeConsumersFactor
                  : variant.tile_m == 64 ? kLoneConsumerFactor
                                         : 1.0;
  if (variant.mainloop == Mainloop::plain || variant.mainloop == Mainloop::mutex) {
    factor *= kNoOverlapFactor;
  }
  return {
      .step_clocks = factor * std::hypot(products, softmax) + kHopperStepClocks,
      .tile_clocks = kHopperTileClocks * (variant.persistence == Persistence::grid ? 2 : 1),
      .ctas_per_sm = 1,
      .bytes_in_flight = 2.0 * variant.stages * variant.tile_n * problem.head_dim * kElementBytes};
}

/// CTAs that shared memory and registers admit.
int portable_ctas_per_sm(const PortableAttentionConfig& config, const DeviceInfo& device) {
  constexpr int kRegistersBesideSums = 90;
  constexpr int kMostRegisters = 255;
  const int registers =
      std::min(kMostRegisters, config.accumulator_registers() + kRegistersBesideSums);
  const int by_registers = device.registers_per_sm / (registers * config.threads());
  const int by_smem =
      device.smem_per_sm_bytes / (config.smem_bytes() + device.smem_reserved_per_cta_bytes);
  return std::clamp(std::min(by_registers, by_smem), 1, 4);
}

CtaCosts portable_costs(const AttentionProblem& problem, const AttentionVariant& variant,
                        const DeviceInfo& device) {
  const PortableAttentionConfig config = make_attention_config(problem, variant);
  const double scores = static_cast<double>(variant.tile_m) * variant.tile_n;
  const double beyond = std::max(0, problem.head_dim - 128);
  const double factor =
      kMmaFactor * (1.0 + kMmaFactorPerColumn * beyond) *
      (variant.tile_m <= 16 * variant.warps && problem.head_dim <= 128 ? kHalfWarpRowsFactor
                                                                       : 1.0) *
      (variant.smem_swizzle ? 1.0 : kConflictsFactor) *
      (variant.warps % 4 == 0 || variant.warps < 4 ? 1.0 : kOddWarpsFactor);
  const double products =
      factor * 4 * scores * problem.head_dim / mma_flop_per_clock(device.sm_arch);
  return {.step_clocks = products + scores * kPortableSoftmaxClocksPerScore + kPortableStepClocks,
          .chain_clocks = kPortableChainClocks * 4 / std::max(4, variant.warps) +
                          (variant.stages == 1 ? kExposedCopyClocks : 0.0),
          .tile_clocks = kPortableTileClocks,
          .ctas_per_sm = portable_ctas_per_sm(config, device),
          .bytes_in_flight =
              (variant.stages - 0.5) * 2 * variant.tile_n * problem.head_dim * kElementBytes};
}

/// The busiest SM's clocks.
double makespan_clocks(const Steps& steps, const CtaCosts& cta, const AttentionVariant& variant,
                       bool causal, double sm_count) {
  const double slots = sm_count * cta.ctas_per_sm;
  if (!causal || steps.shortest >= steps.longest) {
    const double rounds = std::floor(steps.tiles / slots);
    const double rest = std::ceil((steps.tiles - rounds * slots) / sm_count);
    // CTAs of one SM begin and end their tiles under each other's steps.
    const auto round_clocks = [&](double ctas) {
      return ctas > 0 ? steps.longest * cta.clocks_of_steps(ctas) + cta.tile_clocks : 0.0;
    };
    return rounds * round_clocks(cta.ctas_per_sm) + round_clocks(rest);
  }
  const double ctas = std::min<double>(cta.ctas_per_sm, std::ceil(steps.tiles / sm_count));
  const double all = (steps.all * cta.clocks_of_steps(ctas) + steps.tiles * cta.tile_clocks) / ctas;
  const double longest = steps.longest * cta.clocks_of_steps(1) + cta.tile_clocks;
  const double shortest = steps.shortest * cta.clocks_of_steps(1) + cta.tile_clocks;
  const bool deals_long_first = variant.family == Family::hopper || variant.longest_first;
  const bool deals_evenly =
      variant.persistence == Persistence::persistent || variant.persistence == Persistence::pairs;
  const double last = deals_evenly ? 0.6 * longest : deals_long_first ? shortest / 2 : longest / 2;
  return std::max(longest, all / sm_count + last);
}

/// What the mapping of tiles costs: found with head_dim 64 and 128.
double mapping_factor(const AttentionProblem& problem, const AttentionVariant& variant) {
  constexpr int kShort = 512;
  const bool by_head = variant.swizzle == AttentionSwizzle::q_fastest;
  const bool wants_heads = !problem.causal || problem.seq_q <= kShort;
  const bool has_one = problem.batch * problem.heads_q == 1;
  return by_head == wants_heads || has_one ? 1.0 : problem.causal ? 1.05 : 1.02;
}

/// What DRAM takes for K and V when Q tiles of all heads run side by side and L2 holds no head
/// until its next Q tile. Those of one head that run together, and heads that share K and V, read
/// once.
double dram_us_of_heads_side_by_side(const AttentionProblem& problem,
                                     const AttentionVariant& variant, const DeviceInfo& device) {
  const double heads = static_cast<double>(problem.batch) * problem.heads_q;
  const double together =
      std::max(1.0, device.sm_count / heads) * problem.heads_q / problem.heads_kv;
  const double row_bytes = 2.0 * problem.head_dim * kElementBytes;
  return dram_time_us(steps_of(problem, variant).kv_rows * row_bytes / together, device);
}

AttentionSwizzle usual_swizzle(const AttentionProblem& problem, const DeviceInfo& device,
                               int& section_heads) {
  constexpr int kShort = 512;
  section_heads = 0;
  const bool has_one = problem.batch * problem.heads_q == 1;
  if (!problem.causal || problem.seq_q <= kShort || has_one) {
    return AttentionSwizzle::q_fastest;
  }
  const double kv_bytes =
      2.0 * problem.batch * problem.heads_kv * problem.seq_kv * problem.head_dim * kElementBytes;
  const bool all_fit = kv_bytes <= 1.1 * static_cast<double>(device.l2_bytes);
  const auto sections = section_head_candidates(problem, device);
  if (sections.empty() || (all_fit && problem.seq_kv > kShortSection)) {
    return AttentionSwizzle::head_fastest;
  }
  section_heads = sections.front();
  return AttentionSwizzle::head_sections;
}

/// One to be judged.
struct QuickCandidate {
  AttentionVariant variant;
  double time_us = 0.0;
};

class Candidates {
 public:
  Candidates(const AttentionProblem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device) {}

  AttentionVariant best() {
    if (is_decode(problem_)) {
      add_decode();
    } else {
      add_hopper();
      add_portable();
    }
    // Of equal ones the first: more stages.
    std::ranges::stable_sort(all_, {}, &QuickCandidate::time_us);
    for (const QuickCandidate& candidate : all_) {
      if (!broken_constraint(problem_, candidate.variant, device_)) {
        return candidate.variant;
      }
    }
    return default_variant(problem_, device_);
  }

 private:
  void add(const AttentionVariant& variant) {
    all_.push_back({variant, quick_time_us_of(problem_, variant, device_)});
  }

  /// With splits of K and V where Q tiles are few.
  void add_with_splits(AttentionVariant variant) {
    add(variant);
    variant.longest_first = false;
    variant.swizzle = AttentionSwizzle::q_fastest;
    variant.section_heads = 0;
    for (const int splits : kv_split_candidates(problem_, variant, device_)) {
      variant.kv_splits = splits;
      add(variant);
    }
  }

  /// Packed heads read K and V once; of equal times theirs is the longer one, as it was in all of
  /// 35 pairs of an H100 (experiments/right_answers).
  void add_decode() {
    add_decode_tiles(1);
    if (const int group = problem_.heads_q / problem_.heads_kv; group > 1) {
      add_decode_tiles(group);
    }
  }

  void add_decode_tiles(int packed_heads) {
    constexpr int kUsualRows = 64;
    AttentionVariant variant;
    variant.pack_gqa = packed_heads > 1;
    const int rows = problem_.seq_q * packed_heads;
    variant.tile_m = rows <= 16 ? 16 : rows <= 32 ? 32 : kUsualRows;
    variant.warps = 4;
    for (const int tile_n : {128, 64, 32}) {
      const bool shares_rows = variant.tile_m < 16 * variant.warps;
      if ((tile_n == 128 && (variant.tile_m > 16 || problem_.head_dim > 128)) ||
          (shares_rows && tile_n < 64)) {
        continue;
      }
      variant.tile_n = tile_n;
      for (variant.stages = 4; variant.stages > 0; --variant.stages) {
        add_with_splits(variant);
      }
    }
    // What fits every chip.
    variant.tile_m = 16;
    variant.tile_n = 16;
    variant.warps = 1;
    variant.stages = 1;
    add_with_splits(variant);
  }

  void add_hopper() {
    struct OfHeadDim {
      int up_to;
      std::array<Tile, 2> tiles;
    };
    static constexpr std::array kTiles{
        OfHeadDim{64, {{{.tile_m = 128, .tile_n = 128}, {.tile_m = 192, .tile_n = 128}}}},
        OfHeadDim{96, {{{.tile_m = 128, .tile_n = 128}, {.tile_m = 192, .tile_n = 96}}}},
        OfHeadDim{128, {{{.tile_m = 128, .tile_n = 128}, {.tile_m = 128, .tile_n = 128}}}},
        OfHeadDim{160, {{{.tile_m = 128, .tile_n = 112}, {.tile_m = 128, .tile_n = 96}}}},
        OfHeadDim{192, {{{.tile_m = 128, .tile_n = 80}, {.tile_m = 128, .tile_n = 64}}}},
        OfHeadDim{256, {{{.tile_m = 128, .tile_n = 64}, {.tile_m = 128, .tile_n = 48}}}},
    };
    if (device_.sm_arch != kHopperArch) {
      return;
    }
    const auto& list = *std::ranges::find_if(
        kTiles, [&](const OfHeadDim& of) { return problem_.head_dim <= of.up_to; });
    for (const Tile& tile : list.tiles) {
      AttentionVariant variant{.family = Family::hopper,
                               .tile_m = tile.tile_m,
                               .tile_n = tile.tile_n,
                               .warps = tile.tile_m / 16,
                               .stages = 2,
                               .order = problem_.causal ? Order::right_to_left : Order::cyclic,
                               .persistence = Persistence::dynamic};
      variant.swizzle = usual_swizzle(problem_, device_, variant.section_heads);
      if (variant.swizzle == AttentionSwizzle::head_sections && memory_keeps_up(variant)) {
        variant.swizzle = AttentionSwizzle::head_fastest;
        variant.section_heads = 0;
      }
      const long long tiles = q_tiles(tile.tile_m);
      // The consumers of a lone tile gain most from taking turns from its first step on.
      const bool takes_turns = problem_.head_dim <= 96 || tiles <= device_.sm_count;
      variant.mainloop = takes_turns ? Mainloop::overlap_ordered : Mainloop::overlap;
      // With up to four tiles to a CTA, pairs of long and short ones end more evenly than tickets
      // do.
      if (problem_.causal && tiles <= 4LL * device_.sm_count) {
        variant.persistence = Persistence::snake;
      }
      add(variant);
    }
  }

  void add_portable() {
    const FamilySpace& space = space_of(Family::portable, problem_);
    for (const Tile& tile : space.tiles_of(problem_.head_dim, device_.sm_arch)) {
      AttentionVariant variant{
          .tile_m = tile.tile_m, .tile_n = tile.tile_n, .warps = tile.warps, .stages = 2};
      variant.longest_first = problem_.causal;
      const bool by_heads = problem_.causal && problem_.batch * problem_.heads_q > 1;
      variant.swizzle = by_heads ? AttentionSwizzle::head_fastest : AttentionSwizzle::q_fastest;
      for (const int stages : {2, 1}) {
        variant.stages = stages;
        if (stages == 1 || !space.spills(variant, problem_.head_dim, device_.sm_arch)) {
          add_with_splits(variant);
        }
      }
    }
  }

  /// Whether K and V come fast enough when Q tiles of all heads run side by side, so that sections
  /// of heads would spare traffic that costs no time.
  bool memory_keeps_up(const AttentionVariant& variant) const {
    constexpr double kHiddenShare = 0.5;
    return problem_.seq_kv > kShortSection &&
           dram_us_of_heads_side_by_side(problem_, variant, device_) <
               kHiddenShare * quick_time_us_of(problem_, variant, device_);
  }

  /// Of all heads, query rows not packed.
  long long q_tiles(int tile_m) const {
    return 1LL * problem_.batch * problem_.heads_q * ceil_div(problem_.seq_q, tile_m);
  }

  const AttentionProblem& problem_;
  const DeviceInfo& device_;
  std::vector<QuickCandidate> all_;
};

}  // namespace

double quick_time_us_of(const AttentionProblem& problem, const AttentionVariant& variant,
                        const DeviceInfo& device) {
  const bool is_hopper = variant.family == Family::hopper;
  const double sm_count = device.sm_count;
  const Steps steps = steps_of(problem, variant);
  const CtaCosts cta =
      is_hopper ? hopper_costs(problem, variant) : portable_costs(problem, variant, device);
  const double sm_us = makespan_clocks(steps, cta, variant, problem.causal, sm_count) /
                       kClocksPerUs * mapping_factor(problem, variant);
  const double dram_us = dram_time_us(dram_bytes(problem, device), device);
  // Data on its way to the busiest SM.
  const double on_sm = std::ceil(steps.tiles / sm_count);
  const double ctas = std::min<double>(cta.ctas_per_sm, on_sm);
  const double row_bytes = 2.0 * problem.head_dim * kElementBytes;
  const double busiest_bytes =
      std::max(steps.kv_rows / sm_count, on_sm * steps.shortest * variant.tile_n) * row_bytes;
  const double rate =
      std::min(kL2BytesPerClock * kClocksPerUs, ctas * cta.bytes_in_flight / kLatencyUs);
  double time_us = kLaunchUs + (is_hopper ? kHopperStartUs : 0.0) +
                   smooth_max({sm_us, dram_us, busiest_bytes / rate});
  if (variant.kv_splits > 1) {
    const double partials = steps.tiles * variant.tile_m * problem.head_dim * 4.0 * 2.0;
    time_us += kCombineUs + partials / (kPartialGbPerS * 1e3);
  }
  return time_us;
}

AttentionVariant modelled_variant_of(const AttentionProblem& problem, const DeviceInfo& device) {
  return Candidates(problem, device).best();
}

double trusted_octaves_of(const AttentionProblem& /*problem*/, const DeviceInfo& device) {
  return trusted_octaves(device);
}

std::optional<AttentionProblem> near_kind_of(AttentionProblem problem, int index) {
  // With one query row the mask hides nothing: both kinds are the same work.
  const bool has_mask_kinds = problem.seq_q == 1;
  if (index > (has_mask_kinds ? 2 : 0)) {
    return std::nullopt;
  }
  if (index != 1) {
    problem.dtype = problem.dtype == DType::fp16 ? DType::bf16 : DType::fp16;
  }
  if (index > 0) {
    problem.causal = !problem.causal;
  }
  return problem;
}

}  // namespace swr
