// SPDX-License-Identifier: MIT
#include "operations/gemm/model/time.h"

#include "core/architectures.h"
#include "operations/attention/model/hopper_time.h"
#include "operations/attention/model/time.h"
#include "operations/gemm/config.h"
#include "operations/gemm/parts.h"
#include "operations/quick_rates.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

constexpr double kSmemBytesPerClock = 128.0;
/// What an SM takes from L2 at most, when others leave it the bandwidth (measured rates of single
/// SMs of sm_80 and later lie near it): of tiles its own and those that others of its cluster load
/// for it. A stream of tiles takes as long in pairs that multicast as alone (experiments/gemm).
constexpr double kSmL2BytesPerClock = 64.0;
constexpr int kWgmmaRows = 64;
constexpr double kLineOfProductBytes = 32.0;  ///< Of k that one wgmma multiplies.
/// How much longer products take than at wgmma's rate and the profile's clock, which falls to the
/// power limit under a large GEMM: 706 of the 971 TFLOP/s of 132 SMs at 1796 MHz are 1.37 for the
/// cube of 12288, 716 are 1.36 for that of 2048, of which a part is latency and L2's
/// (experiments/gemm).
constexpr double kProductFactor = 1.27;
/// Of a launch without work, in a CUDA graph: 3.2 us of the cube of 512 less its terms where
/// launches follow one another, 2.4 where they overlap (experiments/gemm).
constexpr double kLaunchUs = 2.0;
constexpr double kOverlappingLaunchUs = 1.2;
/// GH100: SMs of a GPC (16 or 18), whose equal requests can meet before L2 looks them up.
constexpr int kNeighbours = 16;
/// Requests that do meet of those that could, in the first step of a launch, and the steps in which
/// CTAs drift so far apart that a part of 1/e is left. Of the requests that multicast leaves, L2
/// looked up 72 and 56 % of 16 steps whose neighbours share 45 and 30 %, 82 to 89 % at 2048 and
/// 3072 cubed, and all from 4096 on (experiments/gemm).
constexpr double kMeetAtFirst = 0.7;
constexpr double kDriftSteps = 50.0;
/// How much faster L2 serves whole lines to the copy engine than the loads of single warps that the
/// profile's rate was measured with: 10.8 TB/s, 64 bytes a clock of each of the H200's 96 slices.
constexpr double kCopyEngineFactor = 1.45;
/// A k-block takes no less: barriers and the copy engine's instructions (270 ns measured for the
/// smallest tiles before arrivals were relaxed, 150 clocks after: experiments/gemm).
constexpr double kLeastStepClocks = 150.0;
/// Rows of a tile of C on their way through shared memory, beside their bytes.
constexpr double kEpilogueClocks = 300.0;

/// Two barriers of a cluster, of which one waits for sums to be in shared memory, and the first of
/// them to arrive. Not measured: barriers with release cost hundreds of clocks
/// (experiments/gemm).
constexpr double kExchangeClocks = 1000.0;
/// What an SM reads of other SMs' shared memory: assumed, about 3.3 TB/s of 132 SMs.
constexpr double kClusterBytesPerClock = 14.0;

/// What a CTA's tile costs its SM, whatever the family.
struct TileCosts {
  double product_clocks = 0.0;   ///< One k-block: products, and the shared memory that feeds them.
  double intake_clocks = 0.0;    ///< One k-block on its way into the SM.
  double line_cost = 1.0;        ///< What its lines cost L2 against those that lie in one of its.
  double wait_clocks = 0.0;      ///< For loads of a k-block that products do not hide.
  double epilogue_clocks = 0.0;  ///< A tile of C that leaves with nothing beside it.
  double exchange_clocks = 0.0;  ///< Sums of a cluster along k.
  double arrival_us = 0.0;       ///< Of a k-block, with as many under way as stages allow.
  bool hides_epilogues = false;  ///< Behind products of the CTA's next tile.
  double l2_rate_factor = 1.0;   ///< Over the profile's.
  double launch_us = kLaunchUs;
};

double sm_l2_bytes_per_clock(const GpuProfile& profile) {
  return profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
}

/// Of a tile as it leaves, partial sums in fp32.
template <typename Config>
double tile_bytes(const Config& config) {
  return static_cast<double>(config.tile_m) * config.tile_n *
         (config.split_k ? 4.0 : config.output_bytes() / (config.gated ? 2.0 : 1.0));
}

/// Reading, of the rows that a CTA writes, the sums of the cluster's others.
double exchange_clocks(const HopperGemmConfig& config, int m) {
  if (config.cluster_k == 1) {
    return 0.0;
  }
  const double rows = static_cast<double>(std::min(config.tile_m, m)) / config.cluster_k;
  return kExchangeClocks +
         4 * rows * config.tile_n * (config.cluster_k - 1) / kClusterBytesPerClock;
}

/// Fused additions of an SM per clock.
constexpr double kAddsPerClock = 128.0;

/// A k-block of sums of two levels: a consumer waits for its products and adds them to its sums,
/// while the other one's products run. With ping-pong nothing runs beside a tile's main loop.
double promoted_clocks(const HopperGemmConfig& config, double products) {
  constexpr double kWaitClocks = 100.0;  ///< For the end of products; not measured alone.
  if (config.promote_every == 0) {
    return 0.0;
  }
  const int sharers = config.mainloop == GemmMainloop::pingpong ? 1 : config.consumers;
  const double added = static_cast<double>(config.tile_m) * config.tile_n / sharers / kAddsPerClock;
  return products / sharers + (added + kWaitClocks) / config.promote_steps();
}

/// Products, or the shared memory that feeds them and takes in the next blocks.
double product_clocks(const HopperGemmConfig& config) {
  const int rows = config.tile_m / kWgmmaRows;
  const int depth = config.tile_k / config.product_depth();
  const double operand_bytes = kLineOfProductBytes * (kWgmmaRows + config.tile_n);
  const double smem_clocks =
      (rows * depth * operand_bytes + config.stage_bytes()) / kSmemBytesPerClock;
  const double products = rows * depth * wgmma_clocks(config.tile_n, true);
  return std::max({kProductFactor * products, smem_clocks, promoted_clocks(config, products)});
}

TileCosts tile_costs(const HopperGemmConfig& config, const GemmProblem& problem,
                     const GemmVariant& variant, const GpuProfile& /*profile*/) {
  const int m = problem.m;
  // Of what the CTA asks L2 for; multicast brings the rest.
  const double a_bytes = static_cast<double>(config.loaded_a_rows(m)) * config.tile_k *
                         config.element_bytes() / config.cluster_n;
  const double b_bytes = static_cast<double>(config.b_tile_bytes()) / config.cluster_m;
  const LineCosts lines = line_costs_of(problem, Family::hopper);
  return {.product_clocks = product_clocks(config),
          .intake_clocks = config.loaded_bytes(m) / kSmL2BytesPerClock,
          .line_cost = (lines.a * a_bytes + lines.b * b_bytes) / (a_bytes + b_bytes),
          // Into shared memory and out of it.
          .epilogue_clocks = kEpilogueClocks +
                             2 * tile_bytes(config) / (config.cluster_k * kSmemBytesPerClock) +
                             odd_store_clocks(problem, variant) / config.cluster_k,
          .exchange_clocks = exchange_clocks(config, m),
          .arrival_us = kLoadLatencyUs / std::max(1, config.stages - 1),
          .hides_epilogues = config.mainloop == GemmMainloop::pingpong,
          .l2_rate_factor = kCopyEngineFactor,
          .launch_us = kOverlappingLaunchUs};
}

/// As for the portable attention kernel: a CTA's warps take turns at mma.sync, at its rate, and at
/// shared memory. Every warp reads its rows of A and columns of B, cp.async writes both.
TileCosts tile_costs(const PortableGemmConfig& config, const GemmProblem& problem,
                     const GemmVariant& variant, const GpuProfile& profile) {
  const OddLoads loads = odd_loads_of(problem, variant);
  const double flop = 2.0 * config.tile_m * config.tile_n * config.tile_k;
  const double smem_bytes = config.warps_n * static_cast<double>(config.a_tile_bytes()) +
                            config.warps_m * static_cast<double>(config.b_tile_bytes()) +
                            config.stage_bytes();
  double products =
      flop / (main_loop_flop_per_clock(profile) * fp8_rate(config.dtype, profile.device.sm_arch));
  if (config.promote_every > 0) {
    products += static_cast<double>(config.tile_m) * config.tile_n / kAddsPerClock * config.tile_k /
                config.promote_every;
  }
  const double smem = profile.kernel.smem_share * smem_bytes / kSmemBytesPerClock;
  return {.product_clocks = clocks_in_turn({products, smem, 0.0}, 1) + loads.issue_clocks,
          .intake_clocks = 1.0 * config.element_bytes() * config.tile_k *
                           (std::min(config.tile_m, problem.m) + config.tile_n) /
                           kSmL2BytesPerClock,
          .wait_clocks = loads.wait_clocks,
          // From registers to L2.
          .epilogue_clocks = kEpilogueClocks + tile_bytes(config) / sm_l2_bytes_per_clock(profile) +
                             odd_store_clocks(problem, variant),
          .exchange_clocks = 0.0,
          .hides_epilogues = false,
          .l2_rate_factor = 1.0};
}

double microseconds(double clocks, const GpuProfile& profile) { return clocks / profile.clock_mhz; }

double transfer_us(double sectors, double gb_per_s) {
  return sectors * kSectorBytes / gb_per_s / 1e3;
}

/// Mean over the steps of a launch: the share of requests that meet, of those that could.
double meeting_share(long long steps) {
  const double drifts = static_cast<double>(std::max(1LL, steps)) / kDriftSteps;
  return kMeetAtFirst * (1.0 - std::exp(-drifts)) / drifts;
}

/// What L2 looks up: requests that did not meet, the tiles of C, and partial sums that are read
/// again.
double l2_sectors(const GemmLaunch& launch, const GemmSummary& summary, double line_cost) {
  const long long could_meet =
      launch.neighbours > 1 ? summary.read_sectors - summary.distinct_sectors : 0;
  const double looked_up = static_cast<double>(summary.read_sectors) -
                           meeting_share(summary.makespan_steps) * static_cast<double>(could_meet);
  const int passes_over_c = launch.schedule.splits > 1 ? 2 : 1;
  return line_cost * looked_up + static_cast<double>(summary.write_sectors) * passes_over_c;
}

}  // namespace

GemmLaunch gemm_launch_on_gpu(const GemmProblem& problem, const GemmVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile) {
  GemmLaunch launch;
  std::visit(
      [&](const auto& config) {
        launch.schedule = config.schedule(make_gemm_params(problem, variant));
        launch.c_element_bytes = config.split_k ? 4 : config.output_bytes();
      },
      make_gemm_config(problem, variant));
  launch.element_bytes = element_bytes(problem.dtype);
  launch.sm_count = profile.device.sm_count;
  launch.ctas_per_sm = ctas_per_sm;
  launch.workers = variant.workers;
  launch.l2_partitions =
      static_cast<int>(std::lround(static_cast<double>(profile.device.l2_bytes) /
                                   static_cast<double>(profile.l2_effective_bytes)));
  launch.partition_runs = profile.l2_partition_runs;
  launch.neighbours = profile.device.sm_arch == kHopperArch ? kNeighbours : 1;
  launch.places_share = places_share(variant);
  return launch;
}

GemmPrediction predict_gemm_time(const GemmProblem& problem, const GemmVariant& variant,
                                 const GemmLaunch& launch, const GemmTraffic& traffic,
                                 const GpuProfile& profile) {
  const TileCosts tile =
      std::visit([&](const auto& config) { return tile_costs(config, problem, variant, profile); },
                 make_gemm_config(problem, variant));
  const GemmSchedule& schedule = launch.schedule;
  const long long at_once = launch.resident_clusters();
  const auto rounds = static_cast<double>((schedule.work_items() + at_once - 1) / at_once);
  const auto steps = static_cast<double>(traffic.summary.makespan_steps);
  // CTAs go to SMs breadth first; those that share one take turns at its units.
  const auto resident = static_cast<double>(
      (at_once * schedule.ctas_per_cluster() + launch.sm_count - 1) / launch.sm_count);

  const double products = resident * tile.product_clocks;
  const double arrival = resident * tile.intake_clocks;
  const double step_clocks =
      std::max({products, arrival, kLeastStepClocks, tile.product_clocks + tile.wait_clocks});
  // Epilogues but the last hide behind products of the same CTA or of another one of the SM, as far
  // as those last.
  const bool hides = tile.hides_epilogues || resident > 1;
  const double beyond = std::max(0.0, tile.epilogue_clocks - steps / rounds * step_clocks) / 2;
  const double epilogues =
      hides ? tile.epilogue_clocks + rounds * beyond : rounds * tile.epilogue_clocks;
  const double first_load = profile.dram_latency_clocks + arrival;

  GemmPrediction prediction;
  prediction.matrix_us = microseconds(steps * products, profile);
  prediction.epilogue_us = microseconds(epilogues, profile);
  prediction.l2_us = transfer_us(l2_sectors(launch, traffic.summary, tile.line_cost),
                                 tile.l2_rate_factor * profile.l2_gb_per_s);
  prediction.dram_us =
      transfer_us(static_cast<double>(traffic.compulsory_misses + traffic.excess_misses),
                  profile.device.dram_gb_per_s * profile.dram_efficiency);
  if (schedule.splits > 1) {
    // The last of a tile's splits waits for the others' sums to be in L2, and reads them alone.
    const double sums_bytes = 4.0 * std::min(variant.tile_m, problem.m) * variant.tile_n;
    prediction.split_us =
        microseconds(2 * profile.dram_latency_clocks +
                         (1 + schedule.splits) * sums_bytes / sm_l2_bytes_per_clock(profile),
                     profile);
  }
  prediction.split_us += microseconds(tile.exchange_clocks, profile);
  const double memory_gb_per_s = profile.device.dram_gb_per_s * profile.dram_efficiency;
  prediction.copy_us =
      row_copies_us(problem, variant, launch.sm_count * launch.ctas_per_sm, memory_gb_per_s);
  const double sm_us = microseconds(first_load + steps * step_clocks + epilogues, profile);
  prediction.time_us =
      tile.launch_us +
      smooth_max({sm_us, steps * tile.arrival_us, prediction.l2_us, prediction.dram_us}) +
      prediction.split_us + prediction.copy_us;
  prediction.latency_us = prediction.time_us - prediction.copy_us -
                          smooth_max({prediction.matrix_us, prediction.l2_us, prediction.dram_us});
  prediction.relative_error = profile.prediction_error("gemm");
  return prediction;
}

Prediction as_prediction(const GemmPrediction& terms, const GemmTraffic& traffic) {
  return {.time_us = terms.time_us,
          .matrix_us = terms.matrix_us,
          .l2_us = terms.l2_us,
          .dram_us = terms.dram_us,
          .latency_us = terms.latency_us,
          .read_sectors = traffic.summary.read_sectors,
          .write_sectors = traffic.summary.write_sectors,
          .compulsory_misses = traffic.compulsory_misses,
          .excess_misses = traffic.excess_misses,
          .relative_error = terms.relative_error};
}

}  // namespace swr
