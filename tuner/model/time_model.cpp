// SPDX-License-Identifier: MIT
#include "tuner/model/time_model.h"

#include "core/attention_config.h"
#include "templates/common/smem_layout.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace swr {
namespace {

/// Schedulers, each with its own tensor core and special-function unit, of one SM (all of sm_80 to
/// sm_121).
constexpr int kSchedulersPerSm = 4;

/// Shared memory delivers 32 banks of 4 bytes per clock (CUDA programming guide, all of sm_80 to
/// sm_121).
constexpr double kSmemBytesPerClock = 128.0;

/// Issue slots per score element on the fp32 lanes: scaling, mask, maximum, exp2, sum, conversion,
/// operands and addresses of the products.
constexpr double kSoftmaxInstructions = 5.5;

/// Share of shared-memory time that products do not hide: a warp needs its operands before its
/// products, and all warps of a CTA pass the same two barriers per step, so phases add up.
constexpr double kExposedSmemShare = 0.38;

/// The same with a ring of several stages, where the address of every operand is computed instead
/// of constant.
constexpr double kExposedSmemShareOfRing = 0.42;

/// How much longer products take when a scheduler has one warp: nothing fills the latency of its
/// chains.
constexpr double kLoneWarpFactor = 1.25;

/// Registers beside the accumulators below which operands are loaded just before each product, so
/// that shared-memory time is exposed in full.
constexpr int kScarceRegisters = 64;

/// Clocks of a KV step in which a warp issues nothing: two barriers and the shuffles of two row
/// reductions. Another CTA of the SM works meanwhile.
constexpr double kStepStallClocks = 150.0;

/// Clocks to move a step's operands through shared memory: every warp reads all of K and V for its
/// own rows, cp.async writes them once, and Q is read again when it does not stay in registers.
double smem_clocks(const AttentionConfig& config) {
  const int chunks_per_row = config.head_dim * 2 / kChunkBytes;
  const int conflict_ways = config.smem_swizzle ? 1 : swizzle_group(chunks_per_row);
  const double kv_bytes = 2.0 * config.kv_tile_bytes();
  const double q_bytes = config.q_in_registers() ? 0.0 : config.q_tile_bytes();
  const double read_bytes = (config.warps * kv_bytes + q_bytes) * conflict_ways;
  return (read_bytes + kv_bytes) / kSmemBytesPerClock;
}

/// Share of a CTA's warps on the scheduler that has most of them: warp i goes to scheduler i modulo
/// 4 in every CTA, so that fifth warps meet on one scheduler.
double busiest_scheduler_share(int warps) {
  return static_cast<double>(ceil_div(warps, kSchedulersPerSm)) / warps;
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

/// Clocks of waiting that no work hides, on the longest chain of steps. The kernel asks for a tile
/// `stages` - 1 steps and about 0.4 of a step before it needs it (K during softmax and the second
/// product, V during the first), and a step lasts as long as those of the SM's other CTAs.
double exposed_clocks(const Variant& variant, const ScheduleShape& shape, const L2Traffic& traffic,
                      const GpuProfile& profile, double step_clocks) {
  constexpr double kLeadOfOneStage = 0.4;
  const double latency =
      profile.l2_latency_clocks +
      traffic.front_miss_share * (profile.dram_latency_clocks - profile.l2_latency_clocks);
  const double lead = (variant.stages - 1 + kLeadOfOneStage) * shape.ctas_per_sm * step_clocks;
  const double exposed_step = std::max(0.0, latency - lead);
  // Each Q tile waits for Q and its first K, and its output drains; other CTAs work meanwhile.
  const double exposed_tile = 2 * profile.dram_latency_clocks / shape.ctas_per_sm;
  return static_cast<double>(traffic.schedule.makespan_steps) * exposed_step +
         static_cast<double>(traffic.schedule.busiest_sm_tiles) * exposed_tile;
}

}  // namespace

StepCost step_cost(const AttentionProblem& problem, const Variant& variant, int ctas_per_sm,
                   const GpuProfile& profile) {
  const AttentionConfig config = make_attention_config(problem, variant);
  const double scores = static_cast<double>(config.tile_m) * config.tile_n;
  const double share = busiest_scheduler_share(config.warps);
  const bool lone_warp = ctas_per_sm * config.warps < 2 * kSchedulersPerSm;
  const double mma_clocks = 4 * scores * config.head_dim * kSchedulersPerSm * share /
                            profile.matrix_flop_per_clock_per_sm *
                            (lone_warp ? kLoneWarpFactor : 1.0);
  const double smem = smem_clocks(config);
  const bool scarce = config.register_limit() - config.accumulator_registers() < kScarceRegisters;
  const double lane_instructions =
      kSoftmaxInstructions + static_cast<double>(config.head_dim) / config.tile_n;
  const double clocks_per_score = std::max(1.0 / profile.exp2_per_clock_per_sm,
                                           lane_instructions / profile.fma_per_clock_per_sm);
  StepCost cost;
  const double usual = variant.stages == 1 ? kExposedSmemShare : kExposedSmemShareOfRing;
  cost.matrix_clocks = std::max(smem, mma_clocks + (scarce ? 1.0 : usual) * smem);
  cost.softmax_clocks = scores * clocks_per_score * kSchedulersPerSm * share;
  cost.compute_clocks = cost.matrix_clocks + cost.softmax_clocks + kStepStallClocks / ctas_per_sm;
  return cost;
}

ScheduleShape schedule_on_gpu(const AttentionProblem& problem, const Variant& variant,
                              int ctas_per_sm, const GpuProfile& profile) {
  ScheduleShape shape = make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const double step_clocks =
      step_cost(problem, variant, shape.ctas_per_sm, profile).compute_clocks * shape.ctas_per_sm;
  const double step_bytes = microseconds(step_clocks, profile) * 1e3 * dram_gb_per_s(profile);
  shape.dram_sectors_per_step = static_cast<int>(std::clamp(step_bytes / kSectorBytes, 1.0, 1e9));
  shape.miss_ticks = static_cast<int>(std::lround(
      kTicksPerStep * (profile.dram_latency_clocks - profile.l2_latency_clocks) / step_clocks));
  shape.l2_partitions =
      static_cast<int>(std::lround(static_cast<double>(profile.device.l2_bytes) /
                                   static_cast<double>(profile.l2_effective_bytes)));
  return shape;
}

Prediction predict_time(const AttentionProblem& problem, const Variant& variant,
                        const ScheduleShape& shape, const L2Traffic& traffic,
                        const GpuProfile& profile) {
  const ScheduleSummary& schedule = traffic.schedule;
  const StepCost cost = step_cost(problem, variant, shape.ctas_per_sm, profile);
  const auto steps = static_cast<double>(schedule.busiest_sm_steps);
  const auto demanded = static_cast<double>(schedule.read_sectors + schedule.write_sectors);
  const auto missed = static_cast<double>(traffic.compulsory_misses + traffic.excess_misses);

  Prediction prediction;
  prediction.matrix_us = microseconds(steps * cost.matrix_clocks, profile);
  prediction.softmax_us = microseconds(steps * cost.softmax_clocks, profile);
  prediction.l2_us =
      transfer_us(demanded, profile.l2_gb_per_s) * imbalance(schedule, shape.sm_count);
  prediction.dram_us = transfer_us(missed, dram_gb_per_s(profile));
  const double bound_us = overlapped(
      {microseconds(steps * cost.compute_clocks, profile), prediction.l2_us, prediction.dram_us});
  const double occupied_us = microseconds(
      static_cast<double>(schedule.busiest_sm_occupied_steps) * cost.compute_clocks, profile);
  const double working_us = std::max(bound_us, occupied_us);
  const double step_clocks = working_us * profile.clock_mhz / steps;
  prediction.time_us =
      working_us +
      microseconds(exposed_clocks(variant, shape, traffic, profile, step_clocks), profile);
  prediction.latency_us = prediction.time_us - bound_us;
  prediction.read_sectors = schedule.read_sectors;
  prediction.write_sectors = schedule.write_sectors;
  prediction.compulsory_misses = traffic.compulsory_misses;
  prediction.excess_misses = traffic.excess_misses;
  return prediction;
}

}  // namespace swr
