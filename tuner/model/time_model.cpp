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

/// Instructions per score element on the fp32 lanes: scaling, maximum, sum, half a conversion and
/// the issue slot of exp2.
constexpr double kSoftmaxInstructions = 4.5;

/// Clocks of a KV step in which a warp issues nothing: two barriers, the shuffles of two row
/// reductions and the latency of a chain of dependent products. An estimate; no chip's data sheet
/// has it.
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

/// Clocks of waiting for K and V that no work hides, on the longest chain of steps. With `stages`
/// tiles in flight a CTA starts a step every (latency + step) / stages clocks at best, while its SM
/// is busy for one step of each resident CTA.
double exposed_clocks(const Variant& variant, const ScheduleShape& shape, const L2Traffic& traffic,
                      const GpuProfile& profile, double step_clocks) {
  const double latency =
      profile.l2_latency_clocks +
      traffic.front_miss_share * (profile.dram_latency_clocks - profile.l2_latency_clocks);
  const double busy = shape.ctas_per_sm * step_clocks;
  const double exposed_step = std::max(0.0, (latency + step_clocks) / variant.stages - busy);
  // Each Q tile waits for Q and its first K from memory; other CTAs of the SM work meanwhile.
  const double exposed_tile = profile.dram_latency_clocks / shape.ctas_per_sm;
  return static_cast<double>(traffic.schedule.makespan_steps) * exposed_step +
         static_cast<double>(traffic.schedule.busiest_sm_tiles) * exposed_tile;
}

}  // namespace

StepCost step_cost(const AttentionProblem& problem, const Variant& variant, int ctas_per_sm,
                   const GpuProfile& profile) {
  const AttentionConfig config = make_attention_config(problem, variant);
  const double scores = static_cast<double>(config.tile_m) * config.tile_n;
  const double warps_per_scheduler =
      static_cast<double>(ctas_per_sm) * config.warps / kSchedulersPerSm;
  const double units_in_use = std::min(1.0, warps_per_scheduler);

  const double mma_clocks =
      4 * scores * config.head_dim / (profile.matrix_flop_per_clock_per_sm * units_in_use);
  const double lane_instructions =
      kSoftmaxInstructions + static_cast<double>(config.head_dim) / config.tile_n;
  const double clocks_per_score = std::max(1.0 / profile.exp2_per_clock_per_sm,
                                           lane_instructions / profile.fma_per_clock_per_sm);
  StepCost cost;
  cost.matrix_clocks = std::max(mma_clocks, smem_clocks(config));
  cost.softmax_clocks = scores * clocks_per_score / units_in_use;
  // A warp's products and softmax depend on each other; only another warp of its scheduler can
  // fill the pipe it leaves idle.
  const auto [shorter, longer] = std::minmax({cost.matrix_clocks, cost.softmax_clocks});
  cost.compute_clocks = longer + (shorter + kStepStallClocks) / std::max(1.0, warps_per_scheduler);
  return cost;
}

int dram_sectors_per_step(const AttentionProblem& problem, const Variant& variant, int ctas_per_sm,
                          const GpuProfile& profile) {
  const double clocks =
      step_cost(problem, variant, ctas_per_sm, profile).compute_clocks * ctas_per_sm;
  const double bytes = microseconds(clocks, profile) * 1e3 * dram_gb_per_s(profile);
  return static_cast<int>(std::clamp(bytes / kSectorBytes, 1.0, 1e9));
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
