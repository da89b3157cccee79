// SPDX-License-Identifier: MIT
#include "operations/attention/model/time.h"

#include "operations/attention/config.h"
#include "operations/attention/model/hopper_time.h"
#include "operations/attention/model/sm_timeline.h"
#include "operations/attention/parts.h"
#include "templates/common/smem_layout.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <vector>

namespace swr {
namespace {

/// Of L1 and shared memory together (CUDA programming guide, all of sm_80 to sm_121).
constexpr double kL1BytesPerClock = 128.0;

}  // namespace

double spill_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                    const KernelResources& resources) {
  const int bytes = resources.spill_store_bytes + resources.spill_load_bytes;
  return bytes == 0 ? 0.0 : threads_of(problem, variant) * bytes / kL1BytesPerClock;
}

long long spilled_sectors(const AttentionProblem& problem, const AttentionVariant& variant,
                          const KernelResources& resources, long long steps) {
  const int bytes = resources.spill_store_bytes;
  return bytes == 0 ? 0 : steps * threads_of(problem, variant) * bytes / kSectorBytes;
}

namespace {

/// Schedulers, each with its own tensor core and special-function unit, of one SM (all of sm_80 to
/// sm_121).
constexpr int kSchedulersPerSm = 4;

/// Shared memory delivers 32 banks of 4 bytes per clock (CUDA programming guide, all of sm_80 to
/// sm_121).
constexpr double kSmemBytesPerClock = 128.0;

/// Instructions of a warp leave each scheduler one at a time, for 32 lanes. Chips with half as many
/// fp32 lanes (sm_80) send maxima and conversions elsewhere meanwhile.
constexpr double kIssuesPerClock = 128.0;

/// Instructions of a main loop beside products and their operands, counted in the machine code
/// (experiments/portable_attention, "Counts"): maximum, multiply-add, exponential, sum and half
/// a conversion of a score; a copy of 16 bytes; addresses, predicates, barriers and the loop of a
/// warp and step; comparison and selection of a masked score.
constexpr double kScoreInstructions = 4.5;
constexpr double kCopyInstructions = 1.0;
constexpr double kStepInstructions = 100.0;
constexpr double kMaskInstructions = 2.0;
constexpr int kWarpSize = 32;

/// Operations of an mma.sync.m16n8k16, and the fewest clocks of a scheduler from one to the next
/// where their operands differ: the rate of an A100. An H200 takes 6 where operands stay, as
/// swr-tune calibrate measures, and no fewer than these in a main loop (experiments/l2_model).
constexpr double kMmaFlop = 4096.0;
constexpr double kLeastMmaClocks = 8.0;

/// How CTAs of an H200 differ in time, from traces of causal launches
/// (experiments/l2_model). Which CTAs share what they read hangs on it.
constexpr double kLatencySpreadClocks = 64.0;  ///< Of a load from memory.
constexpr double kHiddenMissClocks = 8.0;      ///< What a step takes longer whose miss is hidden.
constexpr double kHiddenWaitShare = 0.706;     ///< Of a wait while other CTAs of the SM compute.
constexpr int kPaceSpreadPpm = 350;            ///< SMs differ by 100 in a million (standard).

/// What CTAs get of their SM's issue slots, by place, when three share it: traces of an H200
/// (experiments/l2_model, "Traces"). A CTA that takes the place of one that ended gets what it
/// got.
constexpr std::array kSharesOfThree{1.0, 0.97, 0.85};

/// A latency whose mean is all that counts.
constexpr double kNoSpread = 1e-3;

/// Passes that a read of shared memory takes.
int conflict_ways(const PortableAttentionConfig& config) {
  return config.smem_swizzle ? 1 : swizzle_group(config.head_dim * 2 / kChunkBytes);
}

/// Clocks to move a step's K and V through shared memory: every block of rows has all of them read,
/// by one warp or by several that divide the keys, and cp.async writes them once.
double kv_smem_clocks(const PortableAttentionConfig& config) {
  const double kv_bytes = 2.0 * config.kv_tile_bytes();
  return (config.row_warps() * kv_bytes * conflict_ways(config) + kv_bytes) / kSmemBytesPerClock;
}

/// Clocks to read Q again in a step, when it does not stay in registers.
double q_smem_clocks(const PortableAttentionConfig& config) {
  return config.q_in_registers() ? 0.0
                                 : config.key_groups() * config.q_tile_bytes() *
                                       conflict_ways(config) / kSmemBytesPerClock;
}

/// How much longer the scheduler with the most warps works than the average one.
double scheduler_imbalance(int warps) {
  return static_cast<double>(ceil_div(warps, kSchedulersPerSm) * kSchedulersPerSm) / warps;
}

double dram_gb_per_s(const GpuProfile& profile) {
  return profile.device.dram_gb_per_s * profile.dram_efficiency;
}

double microseconds(double clocks, const GpuProfile& profile) { return clocks / profile.clock_mhz; }

/// GB/s are bytes per nanosecond.
double transfer_us(double sectors, double gb_per_s) {
  return sectors * kSectorBytes / gb_per_s / 1e3;
}

/// Time of parts that overlap, but never perfectly: a smooth maximum (the 4-norm; two equal parts
/// take 19 % longer than one, a part half as long as the other adds 1.5 %).
double overlapped(std::initializer_list<double> parts_us) {
  double sum = 0.0;
  for (const double part_us : parts_us) {
    sum += std::pow(part_us, 4);
  }
  return std::pow(sum, 0.25);
}

/// How much longer the busiest SM works than the average one: waves, tails, causal imbalance.
double imbalance(const ScheduleSummary& schedule, int sm_count) {
  return static_cast<double>(schedule.busiest_sm_steps) * sm_count /
         static_cast<double>(schedule.steps);
}

/// The nearest power of the square root of 2: variants whose steps are about as long share a walk.
int half_octave(double value) {
  constexpr double kMost = 1e9;
  return static_cast<int>(
      std::lround(std::exp2(std::round(2 * std::log2(std::clamp(value, 1.0, kMost))) / 2)));
}

/// The rows and warps of a Q tile that compute: warps whose rows lie past the end of the packed or
/// split problem only copy.
PortableAttentionConfig computing_part(PortableAttentionConfig config,
                                       const AttentionProblem& problem) {
  if (config.has_idle_warps()) {
    const int heads = config.pack_gqa ? problem.heads_q / problem.heads_kv : 1;
    const int warp_rows = 16 * config.m_blocks();
    const int key_groups = config.key_groups();
    const int row_warps = std::min(config.row_warps(), ceil_div(problem.seq_q * heads, warp_rows));
    config.warps = row_warps * key_groups;
    config.tile_m = row_warps * warp_rows;
  }
  return config;
}

/// Clocks from the last step of a split to O: what all splits of a Q tile have left is read by one
/// CTA, at its share of the L2 bandwidth or as fast as loads under way return, after its own has
/// reached L2 and been counted.
double combine_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                      const ScheduleShape& shape, const GpuProfile& profile) {
  if (shape.kv_splits == 1) {
    return 0.0;
  }
  constexpr double kBytesUnderWayPerThread =
      8 * 40.0;  ///< Eight parts of 8 columns, shift and sum.
  constexpr int kColumnsPerThread = 8;
  const WorkItem first = work_item_at(shape, 0);
  const double bytes =
      static_cast<double>(partial_sectors(shape, first)) * kSectorBytes * shape.kv_splits;
  const int threads = std::min(make_attention_config(problem, variant).threads(),
                               first.q_rows * problem.head_dim / kColumnsPerThread);
  const double share = profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
  const double bytes_per_clock =
      std::min(share, threads * kBytesUnderWayPerThread / profile.l2_latency_clocks);
  return 2 * profile.dram_latency_clocks + bytes / bytes_per_clock;
}

/// Barriers of a KV step: with one stage K and V come in turn, else together.
int barriers_per_step(const PortableAttentionConfig& config) { return config.stages == 1 ? 2 : 1; }

/// Clocks of a KV step in which a warp waits for its own results and for the CTA's others.
double waiting_clocks(const PortableAttentionConfig& config, const KernelCosts& kernel) {
  return kernel.step_latency_clocks + barriers_per_step(config) * kernel.barrier_clocks;
}

/// Works that `ctas` CTAs of an SM keep in turn at each scheduler's units. The warps of a CTA meet
/// at barriers and go in step; what several blocks of 16 rows of a scheduler hide of one another
/// grows with their square root.
double works_in_turn(const PortableAttentionConfig& config, int ctas) {
  return ctas * std::sqrt(ceil_div(config.warps, kSchedulersPerSm) * config.m_blocks());
}

/// How late something is on average whose time scatters by about `spread` around so much too late;
/// a smooth max(0, late).
double expected_delay(double late, double spread) {
  return late > 20 * spread ? late : spread * std::log1p(std::exp(late / spread));
}

/// Clocks until each of `count` works, at least one, has passed three units once and waited, when
/// they take turns at the units in random phase: mean value analysis of a closed network of three
/// queues and a delay. `units` are the clocks of all works together. Between whole counts in
/// proportion.
double taking_turns(const std::array<double, 3>& units, double count, double waiting_clocks) {
  std::array<double, 3> queued{};  // Works at each unit.
  double round = 0.0;
  double fewer = 0.0;  // Round with one work less.
  int works = 0;
  do {
    ++works;
    fewer = round;
    std::array<double, 3> stays{};
    round = waiting_clocks;
    for (std::size_t i = 0; i < units.size(); ++i) {
      round += stays[i] = units[i] / count * (1 + queued[i]);
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
      queued[i] = works * stays[i] / round;
    }
  } while (works < count);
  return works == 1 ? round : round + (works - count) * (fewer - round);
}

/// Clocks of a KV step of one CTA at tensor cores, shared memory and softmax's units.
struct UnitClocks {
  double products = 0.0;
  double smem = 0.0;
  double softmax = 0.0;

  std::array<double, 3> times(double ctas) const {
    return {ctas * products, ctas * smem, ctas * softmax};
  }
};

UnitClocks portable_units(const AttentionProblem& problem, const AttentionVariant& variant,
                          int ctas_per_sm, const GpuProfile& profile) {
  const PortableAttentionConfig config =
      computing_part(make_attention_config(problem, variant), problem);
  const KernelCosts& kernel = profile.kernel;
  const double scores = static_cast<double>(config.tile_m) * config.tile_n;
  const double imbalance = scheduler_imbalance(ctas_per_sm * config.warps);
  const double instructions = kScoreInstructions * scores +
                              kCopyInstructions * 2 * config.kv_tile_bytes() / kChunkBytes +
                              kStepInstructions * kWarpSize * config.warps;
  return {.products = imbalance * 4 * scores * config.head_dim / main_loop_flop_per_clock(profile),
          .smem = kernel.smem_share * kv_smem_clocks(config) + q_smem_clocks(config),
          .softmax = imbalance * overlapped({instructions / kIssuesPerClock,
                                             scores / profile.exp2_per_clock_per_sm})};
}

StepCost portable_step_cost(const AttentionProblem& problem, const AttentionVariant& variant,
                            int ctas_per_sm, const GpuProfile& profile) {
  const UnitClocks units = portable_units(problem, variant, ctas_per_sm, profile);
  const PortableAttentionConfig config =
      computing_part(make_attention_config(problem, variant), problem);
  const double works = works_in_turn(config, ctas_per_sm);
  const double together = taking_turns(units.times(ctas_per_sm), works, 0.0);
  return {std::max(units.products, units.smem), units.softmax, together / ctas_per_sm,
          units.products + units.smem};
}

/// A KV step of each of `resident` CTAs of an SM whose K and V are there when they are needed.
double unhindered_step_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                              int resident, const GpuProfile& profile) {
  const PortableAttentionConfig config =
      computing_part(make_attention_config(problem, variant), problem);
  return taking_turns(portable_units(problem, variant, resident, profile).times(resident),
                      works_in_turn(config, resident), waiting_clocks(config, profile.kernel));
}

StepCost step_cost_by_units(const AttentionProblem& problem, const AttentionVariant& variant,
                            int ctas_per_sm, const GpuProfile& profile) {
  if (variant.family == Family::hopper) {
    const HopperStep step = hopper_step(make_hopper_config(problem, variant), profile);
    return {step.matrix_clocks, step.softmax_clocks, step.step_clocks, step.matrix_clocks};
  }
  return portable_step_cost(problem, variant, ctas_per_sm, profile);
}

/// What the compiler made of the main loop, beside what the kernels' costs say. Known of loops
/// with the usual copies and shared memory.
double code_factor(const AttentionProblem& problem, const AttentionVariant& variant,
                   const GpuProfile& profile) {
  const bool usual = variant.family == Family::portable && variant.smem_swizzle &&
                     variant.kv_copy == KvCopy::cp_async;
  return usual ? profile.code_factor(kernel_code(problem.head_dim, variant)) : 1.0;
}

/// The KV steps of each of `resident` CTAs of an SM, whatever the family.
struct KvLoads {
  StepCost cost;
  double step_clocks = 0.0;  ///< When K and V are there when they are needed.
  int kv_tile_bytes = 0;
  int stages = 0;
  bool asks_for_pairs = false;  ///< For K and V of a step at once, `stages` - 1 steps ahead.
};

KvLoads kv_stream(const AttentionProblem& problem, const AttentionVariant& variant, int resident,
                  const GpuProfile& profile) {
  const StepCost cost = step_cost_by_units(problem, variant, resident, profile);
  if (variant.family == Family::hopper) {
    const HopperAttentionConfig config = make_hopper_config(problem, variant);
    return {cost, resident * cost.compute_clocks, config.kv_tile_bytes(), config.stages};
  }
  const PortableAttentionConfig config = make_attention_config(problem, variant);
  return {cost, unhindered_step_clocks(problem, variant, resident, profile), config.kv_tile_bytes(),
          config.stages, config.stages > 1};
}

/// Clocks that such a step waits for K and V tiles that come after a latency, at the CTA's share of
/// the L2 bandwidth. `spread_clocks` is how much latencies scatter.
double exposed_clocks(const KvLoads& stream, int resident, double latency_clocks,
                      double spread_clocks, const GpuProfile& profile) {
  const double sm_bytes_per_clock =
      profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
  const double tile = resident * stream.kv_tile_bytes / sm_bytes_per_clock;
  const auto delay = [&](double arrival, double lead_steps) {
    return expected_delay(arrival - lead_steps * stream.step_clocks, spread_clocks);
  };
  if (stream.asks_for_pairs) {
    return delay(latency_clocks + 2 * tile, stream.stages - 1);
  }
  // V is asked for `stages` - 1 steps and a first product before it is needed, K the rest of a
  // step more.
  const double first_product =
      0.5 * stream.cost.product_clocks / (stream.cost.product_clocks + stream.cost.softmax_clocks);
  return delay(latency_clocks + tile, stream.stages - 1 + first_product) +
         delay(latency_clocks + tile, stream.stages - first_product);
}

/// Shares of the issue slots that `active` CTAs of an SM get, by place. Two get the same; the
/// fourth and further ones, which no trace holds, are taken for as slow as the third. Under the
/// mask CTAs part anyway, and the walk is spared the difference.
std::vector<double> issue_shares(int active, bool causal) {
  std::vector<double> shares(static_cast<std::size_t>(active), 1.0);
  if (active > 2 && !causal) {
    std::ranges::fill(shares, kSharesOfThree.back());
    std::ranges::copy(kSharesOfThree, shares.begin());
  }
  return shares;
}

/// ScheduleShape::step_ticks of up to `resident` CTAs to an SM: at the mean pace a step takes
/// kTicksPerStep when all are there.
std::vector<int> step_ticks(const AttentionProblem& problem, const AttentionVariant& variant,
                            int resident, const GpuProfile& profile) {
  const auto step_clocks = [&](int active) {
    return kv_stream(problem, variant, active, profile).step_clocks;
  };
  const double whole = step_clocks(resident);
  std::vector<int> ticks;
  for (int active = 1; active <= resident; ++active) {
    const std::vector<double> shares = issue_shares(active, problem.causal);
    const double mean_share = std::accumulate(shares.begin(), shares.end(), 0.0) / active;
    for (const double share : shares) {
      const double steps = step_clocks(active) / whole * mean_share / share;
      ticks.push_back(static_cast<int>(std::lround(kTicksPerStep * steps)));
    }
  }
  return ticks;
}

double tile_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                   const GpuProfile& profile) {
  if (variant.family == Family::hopper) {
    return hopper_tile_clocks(make_hopper_config(problem, variant), profile);
  }
  return profile.kernel.tile_clocks;
}

TimelineCosts timeline_costs(const AttentionProblem& problem, const AttentionVariant& variant,
                             const KernelResources& resources, const ScheduleShape& shape,
                             const L2Traffic& traffic, const GpuProfile& profile) {
  const double latency =
      profile.l2_latency_clocks +
      traffic.front_miss_share * (profile.dram_latency_clocks - profile.l2_latency_clocks);
  const double code = code_factor(problem, variant, profile);
  const double spilled = spill_clocks(problem, variant, resources);
  TimelineCosts costs;
  for (int resident = 1; resident <= shape.ctas_per_sm; ++resident) {
    const KvLoads stream = kv_stream(problem, variant, resident, profile);
    // What a CTA waits for is hidden as far as the others of its SM compute meanwhile.
    const double exposed = exposed_clocks(stream, resident, latency, kNoSpread, profile);
    const double others = (resident - 1) * stream.cost.compute_clocks;
    costs.step_clocks.push_back(code * (stream.step_clocks + std::max(0.0, exposed - others)) +
                                resident * spilled);
  }
  const double mask_clocks = kMaskInstructions * variant.tile_m * variant.tile_n *
                             scheduler_imbalance(variant.warps) / kIssuesPerClock;
  costs.masked_extra_steps = mask_clocks / step_cost(problem, variant, 1, profile).compute_clocks;
  costs.tile_delay_clocks = tile_clocks(problem, variant, profile);
  costs.younger_share = profile.kernel.younger_share;
  return costs;
}

/// Of the steps of all tiles, those that are masked score by score, at least.
double least_masked_steps(const ScheduleShape& shape) {
  const bool masks_all =
      shape.causal ? shape.seq_kv >= shape.seq_q : shape.seq_kv % shape.tile_n != 0;
  return masks_all ? static_cast<double>(shape.items().tiles()) : 0.0;
}

/// What run_timeline() does not go below: the work of all CTAs at an SM's best pace, shared evenly
/// or tile by tile, and the longest tile at a CTA's best.
double least_clocks(const ScheduleShape& shape, const ScheduleSummary& totals,
                    const TimelineCosts& costs) {
  double sm_pace = 0.0;
  double cta_pace = 0.0;
  double shares = 0.0;
  for (std::size_t i = 0; i < costs.step_clocks.size(); ++i) {
    shares += std::pow(costs.younger_share, static_cast<double>(i));
    const double pace = static_cast<double>(i + 1) / costs.step_clocks[i];
    sm_pace = std::max(sm_pace, pace);
    cta_pace = std::max(cta_pace, pace / shares);
  }
  const WorkItems items = shape.items();
  const auto steps_of = [&](int q_tile, int split) {
    return std::max(1, work_item_of(shape, {.head = 0, .index = q_tile}, split).kv_tiles.count);
  };
  // An SM with one CTA waits for every Q tile.
  const double wait = shape.ctas_per_sm == 1 ? costs.tile_delay_clocks : 0.0;
  const double sm_count = shape.sm_count;
  const double steps =
      static_cast<double>(totals.steps) + costs.masked_extra_steps * least_masked_steps(shape);
  const auto tiles = static_cast<double>(totals.q_tiles);
  const double shared = (steps / sm_pace + tiles * wait) / sm_count;
  const double by_tile = std::ceil(tiles / sm_count) * (steps_of(0, 0) / sm_pace + wait);
  const double longest = steps_of(items.q_tiles - 1, items.splits - 1) / cta_pace;
  return std::max({shared, by_tile, longest});
}

/// Terms of a time beside what it is made of.
double total_us(const AttentionProblem& problem, const AttentionVariant& variant,
                const ScheduleShape& shape, const GpuProfile& profile,
                std::initializer_list<double> overlapping_us) {
  return (variant.family == Family::hopper ? kHopperLaunchUs : profile.kernel.launch_us) +
         microseconds(combine_clocks(problem, variant, shape, profile), profile) +
         overlapped(overlapping_us);
}

}  // namespace

double main_loop_flop_per_clock(const GpuProfile& profile) {
  const double at_rate = kSchedulersPerSm * kMmaFlop / profile.matrix_flop_per_clock_per_sm;
  const double clocks = std::max(at_rate, kLeastMmaClocks) + profile.kernel.product_gap_clocks;
  return kSchedulersPerSm * kMmaFlop / clocks;
}

double clocks_in_turn(const std::array<double, 3>& units, int ctas) {
  std::array<double, 3> all{};
  std::ranges::transform(units, all.begin(), [&](double clocks) { return ctas * clocks; });
  return taking_turns(all, ctas, 0.0) / ctas;
}

StepCost step_cost(const AttentionProblem& problem, const AttentionVariant& variant,
                   int ctas_per_sm, const GpuProfile& profile) {
  const double code = code_factor(problem, variant, profile);
  const StepCost cost = step_cost_by_units(problem, variant, ctas_per_sm, profile);
  return {code * cost.matrix_clocks, code * cost.softmax_clocks, code * cost.compute_clocks,
          code * cost.product_clocks};
}

ScheduleShape schedule_on_gpu(const AttentionProblem& problem, const AttentionVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile) {
  ScheduleShape shape = make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const KvLoads stream = kv_stream(problem, variant, shape.ctas_per_sm, profile);
  const double step_bytes =
      microseconds(stream.step_clocks, profile) * 1e3 * dram_gb_per_s(profile);
  shape.dram_sectors_per_step = half_octave(step_bytes / kSectorBytes);
  // Waiting is hidden in part: as far as other CTAs of the SM compute.
  const auto exposed = [&](double latency_clocks) {
    const double alone =
        exposed_clocks(stream, shape.ctas_per_sm, latency_clocks, kLatencySpreadClocks, profile);
    const double others = (shape.ctas_per_sm - 1) * stream.cost.compute_clocks;
    return alone - kHiddenWaitShare * std::min(alone, others);
  };
  const double delay =
      exposed(profile.dram_latency_clocks) - exposed(profile.l2_latency_clocks) + kHiddenMissClocks;
  shape.miss_ticks = static_cast<int>(std::lround(kTicksPerStep * delay / stream.step_clocks));
  shape.l2_partitions =
      static_cast<int>(std::lround(static_cast<double>(profile.device.l2_bytes) /
                                   static_cast<double>(profile.l2_effective_bytes)));
  shape.partition_runs = profile.l2_partition_runs;
  if (shape.ctas_per_sm > 1) {
    shape.step_ticks = step_ticks(problem, variant, shape.ctas_per_sm, profile);
  }
  // Without the mask CTAs begin together and stay so near that they share what they read.
  shape.pace_spread_ppm = problem.causal ? kPaceSpreadPpm : 0;
  return shape;
}

double prediction_error(const AttentionProblem& problem, const AttentionVariant& variant,
                        double time_us, const GpuProfile& profile) {
  return variant.family == Family::portable
             ? profile.prediction_error(time_us, problem.causal, problem.head_dim)
             : profile.prediction_error("hopper");
}

Prediction predict_time(const AttentionProblem& problem, const AttentionVariant& variant,
                        const KernelResources& resources, const ScheduleShape& shape,
                        const L2Traffic& traffic, const GpuProfile& profile) {
  const ScheduleSummary& schedule = traffic.schedule;
  const StepCost cost = step_cost(problem, variant, shape.ctas_per_sm, profile);
  const Timeline timeline =
      run_timeline(shape, timeline_costs(problem, variant, resources, shape, traffic, profile));
  const auto steps = static_cast<double>(timeline.busiest_sm_steps);
  Prediction prediction;
  prediction.read_sectors = schedule.read_sectors + schedule.partial_sectors;
  prediction.write_sectors = schedule.write_sectors + schedule.partial_sectors +
                             spilled_sectors(problem, variant, resources, schedule.steps);
  const auto demanded = static_cast<double>(prediction.read_sectors + prediction.write_sectors);
  const auto missed = static_cast<double>(traffic.compulsory_misses + traffic.excess_misses);

  prediction.matrix_us = microseconds(steps * cost.matrix_clocks, profile);
  prediction.softmax_us = microseconds(steps * (cost.compute_clocks - cost.matrix_clocks), profile);
  prediction.l2_us =
      transfer_us(demanded, profile.l2_gb_per_s) * imbalance(schedule, shape.sm_count);
  prediction.dram_us = transfer_us(missed, dram_gb_per_s(profile));
  prediction.time_us =
      total_us(problem, variant, shape, profile,
               {microseconds(timeline.clocks, profile), prediction.l2_us, prediction.dram_us});
  prediction.relative_error = prediction_error(problem, variant, prediction.time_us, profile);
  prediction.latency_us =
      prediction.time_us - overlapped({microseconds(steps * cost.compute_clocks, profile),
                                       prediction.l2_us, prediction.dram_us});
  prediction.compulsory_misses = traffic.compulsory_misses;
  prediction.excess_misses = traffic.excess_misses;
  return prediction;
}

double bound_time_us(const AttentionProblem& problem, const AttentionVariant& variant,
                     const KernelResources& resources, const ScheduleShape& shape,
                     const L2Traffic& traffic, const GpuProfile& profile) {
  const ScheduleSummary& totals = traffic.schedule;
  const TimelineCosts costs = timeline_costs(problem, variant, resources, shape, traffic, profile);
  const auto demanded =
      static_cast<double>(totals.read_sectors + totals.write_sectors + 2 * totals.partial_sectors +
                          spilled_sectors(problem, variant, resources, totals.steps));
  return total_us(
      problem, variant, shape, profile,
      {microseconds(least_clocks(shape, totals, costs), profile),
       transfer_us(demanded, profile.l2_gb_per_s),
       transfer_us(static_cast<double>(traffic.compulsory_misses), dram_gb_per_s(profile))});
}

KernelCode kernel_code(int head_dim, const AttentionVariant& variant) {
  return {head_dim, variant.tile_m, variant.tile_n, variant.warps, variant.stages, variant.order};
}

}  // namespace swr
