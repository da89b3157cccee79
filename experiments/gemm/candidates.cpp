// SPDX-License-Identifier: MIT
#include "experiments/gemm/candidates.h"

#include <swr/gemm_problem.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace swr {
namespace {

HopperGemmConfig base_config(const GemmProblem& problem) {
  return {.dtype = problem.dtype,
          .output = problem.output,
          .layout = problem.layout,
          .reads_c = problem.reads_c,
          .tile_m = 64,
          .tile_n = 64,
          .tile_k = 64,
          .stages = 1,
          .mainloop = GemmMainloop::cooperative,
          .consumers = 1,
          .cluster_m = 1,
          .cluster_n = 1,
          .cluster_k = 1,
          .persistence = Persistence::persistent,
          .k_order = Order::cyclic,
          .split_k = false};
}

/// As many stages as fit `limit_bytes`, at most 12; 0 when not even two do.
int most_stages(HopperGemmConfig config, int limit_bytes) {
  int fitting = 0;
  for (int stages = 2; stages <= 12; ++stages) {
    config.stages = stages;
    fitting = config.smem_bytes() <= limit_bytes ? stages : fitting;
  }
  return fitting;
}

/// Two CTAs per SM, where one loads while the other starts or ends, also of the launch after:
/// kernels of one consumer that are not persistent.
bool shares_sm(const HopperGemmConfig& config) {
  return config.persistence == Persistence::grid && config.consumers == 1;
}

/// CTAs of a cluster along m, n and k.
constexpr std::array<std::array<int, 3>, 6> kClusters{
    {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 1, 3}, {1, 1, 4}}};

/// False for clusters of which one CTA has no rows, or that load lines of zeros, and for kernels
/// that a cluster along k does not suit or that nothing else does.
bool cluster_pays(const GemmProblem& problem, const HopperGemmConfig& config) {
  if (config.cluster_k > 1) {
    return config.persistence == Persistence::grid &&
           ceil_div(problem.k, config.tile_k) / config.cluster_k >= 4;
  }
  if (config.persistence == Persistence::grid && !shares_sm(config)) {
    return false;
  }
  return (config.cluster_m == 1 || problem.m > config.tile_m) &&
         (config.cluster_n == 1 || problem.m >= config.tile_m);
}

/// Tiles, consumers and clusters.
std::vector<HopperGemmConfig> configs(const GemmProblem& problem) {
  std::vector<HopperGemmConfig> result;
  const auto add = [&](int tile_m, int tile_n, GemmMainloop mainloop, int consumers,
                       Persistence persistence = Persistence::persistent, int tile_k = 64) {
    HopperGemmConfig config = base_config(problem);
    config.tile_m = tile_m;
    config.tile_n = tile_n;
    config.mainloop = mainloop;
    config.consumers = consumers;
    config.persistence = persistence;
    config.tile_k = tile_k;
    for (const auto& [cluster_m, cluster_n, cluster_k] : kClusters) {
      config.cluster_m = cluster_m;
      config.cluster_n = cluster_n;
      config.cluster_k = cluster_k;
      constexpr int kHalfSmemBytes = 115712;
      config.stages = most_stages(
          config, shares_sm(config) ? kHalfSmemBytes : HopperGemmConfig::kSmemLimitBytes);
      if (config.accumulator_registers() <= 192 && config.stages >= 2 &&
          cluster_pays(problem, config)) {
        result.push_back(config);
      }
    }
  };
  for (int tile_n = 16; tile_n <= 256; tile_n += 16) {
    add(64, tile_n, GemmMainloop::cooperative, 1);
    add(64, tile_n, GemmMainloop::cooperative, 1, Persistence::persistent, 128);
    if (tile_n <= 128) {
      add(64, tile_n, GemmMainloop::cooperative, 1, Persistence::grid);
      add(64, tile_n, GemmMainloop::cooperative, 1, Persistence::grid, 128);
    }
    if (tile_n >= 64) {
      add(64, tile_n, GemmMainloop::pingpong, 2);
      add(128, tile_n, GemmMainloop::cooperative, 2);
      add(128, tile_n, GemmMainloop::cooperative, 2, Persistence::grid);
      add(128, tile_n, GemmMainloop::pingpong, 2);
      add(256, tile_n, GemmMainloop::cooperative, 2);
    }
  }
  return result;
}

/// Cycles, by the slowest of the units that a wave keeps busy. Rates are those of an H200 at its
/// clock under load; only their proportions matter here.
double estimated_cycles(const GemmProblem& problem, const HopperGemmConfig& config, int splits,
                        int sm_count) {
  constexpr double kL2BytesPerCycle = 42.0;    // Per SM, when all SMs read.
  constexpr double kDramBytesPerCycle = 18.0;  // Per SM, likewise.
  GemmParams params;
  params.m = problem.m;
  params.n = problem.n;
  params.k = problem.k;
  params.batch = problem.batch;
  params.splits = splits;
  HopperGemmConfig split = config;
  split.split_k = splits > 1;
  const GemmSchedule schedule = split.schedule(params);
  const double items = static_cast<double>(schedule.work_items()) * schedule.ctas_per_cluster();
  // Two CTAs of an SM run at half the speed each. Clusters lie within GPCs of about 16 SMs.
  const double slots = sm_count * (16 / config.cluster_k * config.cluster_k) / 16.0;
  const double waves = std::ceil(items / slots);
  const double k_blocks = std::ceil(problem.k / 64.0 / splits / config.cluster_k);
  const double products = config.tile_m / 64 * 4 * std::max(config.tile_n / 2, 32);
  const double bytes =
      128.0 * (static_cast<double>(std::min(config.tile_m, problem.m)) / config.cluster_n +
               static_cast<double>(config.tile_n) / config.cluster_m);
  const double least = config.tile_k == 128 || shares_sm(config) ? 100.0 : 150.0;
  // What products read of shared memory and what the copy engine writes.
  const double smem = config.tile_m / 64 * (64.0 + config.tile_n) + config.tile_m + config.tile_n;
  const double per_block = std::max({products, smem, bytes / kL2BytesPerCycle, least});
  const double epilogue =
      config.mainloop == GemmMainloop::pingpong && waves > 1 ? 300.0 : 600.0 + config.tile_n * 4.0;
  const double sums_bytes = 4.0 * std::min(config.tile_m, problem.m) * config.tile_n;
  const double exchanged = sums_bytes * (config.cluster_k - 1) / config.cluster_k;
  const double partials = splits > 1             ? 4000.0 + (1 + splits) * sums_bytes / 40.0
                          : config.cluster_k > 1 ? 1000.0 + exchanged / 14.0
                                                 : 0.0;
  // A round that leaves SMs idle leaves their share of the bandwidth unused.
  const double idle = waves * sm_count / items - 1.0;
  const double unevenness = 1.0 + (shares_sm(config) ? idle / 2.0 : idle);
  const double dram =
      2.0 *
      (static_cast<double>(problem.m) * problem.k + static_cast<double>(problem.n) * problem.k +
       static_cast<double>(problem.m) * problem.n) /
      sm_count / kDramBytesPerCycle * unevenness;
  return std::max(waves * (k_blocks * per_block + epilogue), dram) + waves * partials + 1500.0;
}

struct Ranked {
  GemmCandidate candidate;
  double cycles = 0.0;
};

std::vector<Ranked> ranked(const GemmProblem& problem, int sm_count) {
  std::vector<Ranked> result;
  for (const HopperGemmConfig& config : configs(problem)) {
    for (const int splits : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
      if (splits > 1 && (config.cluster_k > 1 || ceil_div(problem.k, config.tile_k) / splits < 4)) {
        continue;
      }
      GemmCandidate candidate{.config = config, .splits = splits};
      candidate.config.split_k = splits > 1;
      result.push_back({candidate, estimated_cycles(problem, config, splits, sm_count)});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
  return result;
}

/// The orders of tiles worth a trial; when one wave holds all tiles they hardly differ.
std::vector<GemmCandidate> with_rasters(const GemmCandidate& base, const GemmProblem& problem,
                                        int sm_count) {
  GemmParams params;
  params.m = problem.m;
  params.n = problem.n;
  params.k = problem.k;
  const GemmSchedule schedule = base.config.schedule(params);
  std::vector<GemmCandidate> result;
  const auto add = [&](Raster raster, int group) {
    GemmCandidate candidate = base;
    candidate.raster = raster;
    candidate.raster_group = group;
    result.push_back(candidate);
  };
  add(Raster::along_m, 1);
  if (schedule.rows() > 1 && schedule.cluster_tiles() * schedule.ctas_per_cluster() > sm_count) {
    add(Raster::grouped, 8 / base.config.cluster_m);
    add(Raster::serpentine, 8 / base.config.cluster_m);
    add(Raster::serpentine, 16 / base.config.cluster_m);
    add(Raster::hilbert, 1);
  }
  return result;
}

}  // namespace

std::vector<GemmCandidate> gemm_candidates(const GemmProblem& problem, int sm_count, int count) {
  std::vector<GemmCandidate> result;
  // No class of kernels fills the list: the estimate is least sure about what tells them apart.
  std::map<std::tuple<GemmMainloop, int, int, int, int, Persistence, int>, int> taken_of_class;
  int taken = 0;
  for (const Ranked& one : ranked(problem, sm_count)) {
    const HopperGemmConfig& config = one.candidate.config;
    int& of_class =
        taken_of_class[{config.mainloop, config.consumers, config.cluster_m, config.cluster_n,
                        config.cluster_k, config.persistence, config.tile_k}];
    if (taken == count || of_class == (count + 5) / 6) {
      continue;
    }
    ++taken;
    ++of_class;
    const std::vector<GemmCandidate> variants = with_rasters(one.candidate, problem, sm_count);
    result.insert(result.end(), variants.begin(), variants.end());
  }
  return result;
}

std::string candidate_name(const GemmCandidate& candidate) {
  constexpr std::array kRasters{"n", "m", "g", "s", "h"};
  const HopperGemmConfig& c = candidate.config;
  std::string name =
      std::to_string(c.tile_m) + "x" + std::to_string(c.tile_n) + "x" + std::to_string(c.tile_k) +
      (c.mainloop == GemmMainloop::pingpong ? " pingpong" : " coop") + std::to_string(c.consumers) +
      " c" + std::to_string(c.cluster_m) + std::to_string(c.cluster_n) +
      (c.cluster_k > 1 ? std::to_string(c.cluster_k) : "") + " s" + std::to_string(c.stages) +
      " r" + kRasters.at(static_cast<std::size_t>(candidate.raster)) +
      std::to_string(candidate.raster_group);
  if (candidate.swizzle_stride > 0) {
    name += " w" + std::to_string(candidate.swizzle_stride);
  }
  if (candidate.splits > 1) {
    name += " k" + std::to_string(candidate.splits);
  }
  if (c.persistence == Persistence::grid) {
    name += " grid";
  }
  if (c.k_order == Order::sawtooth) {
    name += " saw";
  }
  return name;
}

}  // namespace swr
