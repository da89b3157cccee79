// SPDX-License-Identifier: MIT
#include "tuner/model/gemm_time.h"

#include "core/gemm_config.h"
#include "tuner/model/hopper_time.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

constexpr double kSmemBytesPerClock = 128.0;
/// What an SM takes from L2 at most, when others leave it the bandwidth (measured rates of single
/// SMs of sm_80 and later lie near it).
constexpr double kSmL2BytesPerClock = 64.0;
constexpr int kWgmmaRows = 64;
constexpr int kWgmmaDepth = 16;
/// How much longer products take than at wgmma's rate and the profile's clock, which falls to the
/// power limit under a large GEMM: 706 of the 971 TFLOP/s of 132 SMs at 1796 MHz are 1.37 for the
/// cube of 12288, 716 are 1.36 for that of 2048, of which a little is latency
/// (docs/results/gemm.md).
constexpr double kProductFactor = 1.33;
/// Of a launch without work, in a CUDA graph: 3.3 us of the cube of 512 less its terms.
constexpr double kLaunchUs = 2.0;
/// SMs that ask for a block in the same step and share a lookup in L2: 132 CTAs that read one
/// buffer in step demand three to four times as many sectors as L2 looks up (GH100, counters of
/// docs/measuring.md).
constexpr double kMergedRequests = 3.0;
/// A k-block takes no less: barriers and the copy engine's instructions (270 ns measured for the
/// smallest tiles before arrivals were relaxed, 150 clocks after: docs/results/gemm.md).
constexpr double kLeastStepClocks = 150.0;
/// Rows of a tile of C on their way through shared memory, beside their bytes.
constexpr double kEpilogueClocks = 300.0;

/// Clocks of one k-block of a CTA: products, or the shared memory that feeds them and takes in the
/// next blocks.
double product_clocks(const HopperGemmConfig& config) {
  const int rows = config.tile_m / kWgmmaRows;
  const int depth = config.tile_k / kWgmmaDepth;
  const double operand_bytes = 2.0 * kWgmmaDepth * (kWgmmaRows + config.tile_n);
  const double smem_clocks =
      (rows * depth * operand_bytes + config.stage_bytes()) / kSmemBytesPerClock;
  return std::max(kProductFactor * rows * depth * wgmma_clocks(config.tile_n, true), smem_clocks);
}

/// Bytes that a CTA loads itself per k-block: multicast brings the rest.
double loaded_bytes(const HopperGemmConfig& config, int m) {
  return static_cast<double>(config.loaded_a_rows(m)) * config.tile_k * 2 / config.cluster_n +
         static_cast<double>(config.b_tile_bytes()) / config.cluster_m;
}

/// Of a tile of C that leaves with nothing beside it.
double epilogue_clocks(const HopperGemmConfig& config) {
  const double bytes = static_cast<double>(config.tile_m) * config.tile_n *
                       (config.split_k ? 4 : config.output_bytes());
  // Into shared memory and out of it.
  return kEpilogueClocks + 2 * bytes / kSmemBytesPerClock;
}

double microseconds(double clocks, const GpuProfile& profile) { return clocks / profile.clock_mhz; }

double transfer_us(double sectors, double gb_per_s) {
  return sectors * kSectorBytes / gb_per_s / 1e3;
}

/// What L2 looks up: requests that meet, the tiles of C, and partial sums that are read again.
double l2_sectors(const HopperGemmConfig& config, const GemmSummary& summary) {
  const double looked_up = std::max(static_cast<double>(summary.touched_sectors),
                                    static_cast<double>(summary.read_sectors) / kMergedRequests);
  return looked_up + static_cast<double>(summary.write_sectors) * (config.split_k ? 2 : 1);
}

double sm_l2_bytes_per_clock(const GpuProfile& profile) {
  return profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
}

/// A smooth maximum, as for attention (docs/model.md).
double overlapped(double a, double b, double c) {
  return std::pow(std::pow(a, 4) + std::pow(b, 4) + std::pow(c, 4), 0.25);
}

}  // namespace

GemmLaunch gemm_launch_on_gpu(const GemmProblem& problem, const GemmVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile) {
  const HopperGemmConfig config = make_hopper_gemm_config(problem, variant);
  GemmLaunch launch;
  launch.schedule = config.schedule(make_gemm_params(problem, variant));
  launch.element_bytes = 2;
  launch.c_element_bytes = config.split_k ? 4 : config.output_bytes();
  launch.sm_count = profile.device.sm_count;
  launch.ctas_per_sm = ctas_per_sm;
  launch.l2_partitions =
      static_cast<int>(std::lround(static_cast<double>(profile.device.l2_bytes) /
                                   static_cast<double>(profile.l2_effective_bytes)));
  launch.partition_runs = profile.l2_partition_runs;
  return launch;
}

GemmPrediction predict_gemm_time(const GemmProblem& problem, const GemmVariant& variant,
                                 const GemmLaunch& launch, const GemmTraffic& traffic,
                                 const GpuProfile& profile) {
  const HopperGemmConfig config = make_hopper_gemm_config(problem, variant);
  const GemmSchedule& schedule = launch.schedule;
  const int resident = launch.ctas_per_sm;
  const long long places = std::max(1, launch.sm_count * resident / schedule.ctas_per_cluster());
  const auto rounds = static_cast<double>((schedule.work_items() + places - 1) / places);
  const auto steps = static_cast<double>(traffic.summary.makespan_steps);

  // CTAs that share an SM take turns at its units.
  const double products = resident * product_clocks(config);
  const double arrival = resident * loaded_bytes(config, problem.m) / kSmL2BytesPerClock;
  const double step_clocks = std::max({products, arrival, kLeastStepClocks});
  // Ping-pong hides all epilogues but the last behind the other consumer's products; a second CTA
  // of the SM does likewise.
  const bool hides = config.mainloop == GemmMainloop::pingpong || resident > 1;
  const double epilogues = (hides ? 1.0 : rounds) * epilogue_clocks(config);
  const double first_load = profile.dram_latency_clocks + arrival;

  GemmPrediction prediction;
  prediction.matrix_us = microseconds(steps * products, profile);
  prediction.epilogue_us = microseconds(epilogues, profile);
  prediction.l2_us = transfer_us(l2_sectors(config, traffic.summary), profile.l2_gb_per_s);
  prediction.dram_us =
      transfer_us(static_cast<double>(traffic.compulsory_misses + traffic.excess_misses),
                  profile.device.dram_gb_per_s * profile.dram_efficiency);
  if (config.split_k) {
    // The last of a tile's splits waits for the others' sums to be in L2, and reads them alone.
    const double tile_bytes = 4.0 * std::min(config.tile_m, problem.m) * config.tile_n;
    prediction.split_us =
        microseconds(2 * profile.dram_latency_clocks +
                         (1 + schedule.splits) * tile_bytes / sm_l2_bytes_per_clock(profile),
                     profile);
  }
  const double sm_us = microseconds(first_load + steps * step_clocks + epilogues, profile);
  prediction.time_us =
      kLaunchUs + overlapped(sm_us, prediction.l2_us, prediction.dram_us) + prediction.split_us;
  return prediction;
}

}  // namespace swr
