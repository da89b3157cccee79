// SPDX-License-Identifier: MIT
#include "operations/gemm/model/explanation.h"

#include "operations/gemm/config.h"
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

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
  result.prediction = predict_gemm_time(problem, variant, result.launch, result.traffic, profile);
  return result;
}

}  // namespace swr
