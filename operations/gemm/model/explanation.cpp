// SPDX-License-Identifier: MIT
#include "operations/gemm/model/explanation.h"

#include "operations/gemm/config.h"
#include "operations/gemm/gemm_fit.h"
#include "operations/gemm/parts.h"
#include <swr/error.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

std::vector<NamedBytes> buffers_of(const HopperGemmConfig& config) {
  return {{"A", config.stages * config.a_tile_bytes()},
          {"B", config.stages * config.b_tile_bytes()},
          {"staging of C", config.staging_bytes()},
          {"work list, barriers", config.smem_bytes() - config.work_offset()}};
}

std::vector<NamedBytes> buffers_of(const PortableGemmConfig& config) {
  return {{"A", config.stages * config.a_tile_bytes()},
          {"B", config.stages * config.b_tile_bytes()},
          {"vote", config.smem_bytes() - config.vote_offset()}};
}

/// Every column of clusters reads all of A, every row of them all of B.
std::vector<MatrixBytes> matrices_of(const GemmProblem& problem, const GemmLaunch& launch) {
  const GemmSchedule& schedule = launch.schedule;
  const auto bytes = [&](long long rows, long long columns, int element) {
    return problem.batch * rows * columns * element;
  };
  const long long a = bytes(problem.m, problem.k, launch.element_bytes);
  const long long b = bytes(product_columns(problem), problem.k, launch.element_bytes);
  const long long c = bytes(problem.m, problem.n, output_bytes(problem.output));
  const long long written = schedule.splits * bytes(problem.m, problem.n, launch.c_element_bytes);
  std::vector<MatrixBytes> matrices{{"A", schedule.columns() * a, a},
                                    {"B", schedule.rows() * b, b},
                                    {schedule.splits > 1 ? "partial sums" : "C", written, c}};
  if (problem.reads_c) {
    matrices.push_back({"C, read", c, c});
  }
  return matrices;
}

double waves_of(const GemmLaunch& launch) {
  const GemmSchedule& schedule = launch.schedule;
  const bool has_workers = schedule.persistence == Persistence::persistent && launch.workers > 0;
  const int places = launch.sm_count * launch.ctas_per_sm;
  const int ctas = has_workers ? min_of(places, launch.workers) : places;
  const int clusters = max_of(1, ctas / schedule.ctas_per_cluster());
  return static_cast<double>(schedule.work_items()) / clusters;
}

OperandReads reads_of(const GemmLaunch& launch, const GemmTraffic& traffic) {
  const OperandSectors item = GemmBlocks(launch).of_item();
  const auto times = [&](long long fetched, long long once) {
    return static_cast<double>(fetched) / static_cast<double>(once * launch.schedule.batch);
  };
  return {.a = times(traffic.fetched.a, item.a), .b = times(traffic.fetched.b, item.b)};
}

/// Every raster without a stride; bands of as many rows of tiles as the spaces have.
std::vector<GemmVariant> other_orders(const GemmVariant& variant) {
  constexpr std::array kRasters{Raster::grouped, Raster::serpentine, Raster::hilbert,
                                Raster::along_n, Raster::along_m};
  std::vector<GemmVariant> all;
  for (const Raster raster : kRasters) {
    for (const int rows : {8, 16}) {
      GemmVariant other = variant;
      other.raster = raster;
      other.raster_group = is_banded(raster) ? rows / variant.cluster_m : 1;
      other.swizzle_stride = 0;
      if (other != variant && (all.empty() || other != all.back())) {
        all.push_back(other);
      }
    }
  }
  return all;
}

}  // namespace

GemmExplanation explain(const GemmProblem& problem, const GemmVariant& variant,
                        const KernelResources& resources, const GpuProfile& profile) {
  GemmExplanation result;
  result.occupancy = occupancy(resources, problem, variant, profile.device);
  if (result.occupancy.ctas_per_sm < 1) {
    throw Error(ErrorCode::invalid_argument, "no CTA of " + to_key(variant) + " fits an SM of " +
                                                 profile.device.name + ", limited by " +
                                                 result.occupancy.limited_by +
                                                 "; choose a smaller tile or fewer stages");
  }
  result.launch = gemm_launch_on_gpu(problem, variant, result.occupancy.ctas_per_sm, profile);
  result.buffers = std::visit([](const auto& config) { return buffers_of(config); },
                              make_gemm_config(problem, variant));
  result.matrices = matrices_of(problem, result.launch);
  const GemmSchedule& schedule = result.launch.schedule;
  result.ctas = result.launch.clusters() * schedule.ctas_per_cluster();
  result.waves = waves_of(result.launch);
  result.traffic = simulate_gemm_l2(result.launch, profile.l2_policy());
  result.reads = reads_of(result.launch, result.traffic);
  result.prediction = predict_gemm_time(problem, variant, result.launch, result.traffic, profile);
  return result;
}

std::optional<OtherOrder> fastest_other_order(const GemmProblem& problem,
                                              const GemmVariant& variant, int ctas_per_sm,
                                              const GpuProfile& profile) {
  std::optional<OtherOrder> fastest;
  for (const GemmVariant& other : other_orders(variant)) {
    if (broken_constraint(problem, other, profile.device)) {
      continue;
    }
    const GemmLaunch launch = gemm_launch_on_gpu(problem, other, ctas_per_sm, profile);
    const GemmTraffic traffic = simulate_gemm_l2(launch, profile.l2_policy());
    const double time_us = predict_gemm_time(problem, other, launch, traffic, profile).time_us;
    if (!fastest || time_us < fastest->time_us) {
      fastest = {.variant = other, .reads = reads_of(launch, traffic), .time_us = time_us};
    }
  }
  return fastest;
}

}  // namespace swr
