// SPDX-License-Identifier: MIT
#include "core/architectures.h"
#include "model/l2/traffic_memo.h"
#include "operations/gemm/config.h"
#include "operations/gemm/model/time.h"
#include "operations/gemm/model/walk.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

/// Clocks of one step over k of a CTA: products at the family's rate, or its bytes at its share of
/// the L2's bandwidth, and a share for barriers and issue.
double step_clocks(const GemmProblem& problem, const GemmVariant& variant,
                   const GpuProfile& profile) {
  constexpr double kWgmmaFlopPerClock = 4096.0;
  constexpr double kMostResident = 4.0;  ///< CTAs of an SM that wait for loads at the same time.
  const DType dtype = problem.dtype;
  constexpr double kFixedClocks = 100.0;
  const double flop_per_clock =
      variant.family == Family::hopper
          ? kWgmmaFlopPerClock * 2 / element_bytes(dtype)
          : profile.matrix_flop_per_clock_per_sm * fp8_rate(dtype, profile.device.sm_arch);
  const double products = 2.0 * variant.tile_m * variant.tile_n * variant.tile_k / flop_per_clock;
  const double l2_bytes_per_clock =
      profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
  const double bytes = 1.0 * element_bytes(dtype) * variant.tile_k *
                       (static_cast<double>(variant.tile_m) / variant.cluster_n +
                        static_cast<double>(variant.tile_n) / variant.cluster_m);
  const OddLoads loads = odd_loads_of(problem, variant);
  return kFixedClocks + std::max(products, bytes / l2_bytes_per_clock) + loads.issue_clocks +
         loads.wait_clocks / kMostResident;
}

/// A floor: rounds of tiles, each as long as its steps over k and its output,
/// or the bytes of the problem at the memory's bandwidth.
double gemm_floor_us(const GemmProblem& problem, const GemmVariant& variant,
                     const GpuProfile& profile) {
  constexpr double kOutputClocksPerColumn = 4.0;
  constexpr double kSplitClocks = 4000.0;    ///< Writing, fetching and adding partial sums.
  constexpr double kClusterClocks = 2000.0;  ///< The same through the cluster's shared memory.
  const GemmSchedule schedule = std::visit(
      [&](const auto& config) { return config.schedule(make_gemm_params(problem, variant)); },
      make_gemm_config(problem, variant));
  const double items = static_cast<double>(schedule.work_items()) * schedule.ctas_per_cluster();
  const double rounds = std::ceil(items / profile.device.sm_count);
  const double steps = std::ceil(static_cast<double>(problem.k) / variant.tile_k /
                                 (variant.splits * variant.cluster_k));
  const double clocks =
      rounds *
      (steps * step_clocks(problem, variant, profile) + kOutputClocksPerColumn * variant.tile_n +
       odd_store_clocks(problem, variant) + (variant.splits > 1 ? kSplitClocks : 0) +
       (variant.cluster_k > 1 ? kClusterClocks : 0));
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  const double dram_us = static_cast<double>(bytes.read + bytes.write) /
                         (profile.device.dram_gb_per_s * profile.dram_efficiency) / 1e3;
  const double copy_us = row_copies_us(problem, variant.family,
                                       profile.device.dram_gb_per_s * profile.dram_efficiency);
  return std::max(clocks / profile.clock_mhz, dram_us) + copy_us;
}

class GemmPredictor final : public Predictor {
 public:
  explicit GemmPredictor(const GpuProfile& profile)
      : profile_(profile), walks_(simulate_gemm_l2, profile.l2_policy()) {}

  Prediction predict(const Problem& problem, const Variant& variant,
                     const KernelResources& /*resources*/, int ctas_per_sm) override {
    const auto& asked = problem.as<GemmProblem>();
    const auto& chosen = variant.as<GemmVariant>();
    const GemmLaunch launch = gemm_launch_on_gpu(asked, chosen, ctas_per_sm, profile_);
    const GemmTraffic traffic = walks_.traffic(launch);
    return as_prediction(predict_gemm_time(asked, chosen, launch, traffic, profile_), traffic);
  }

  double relative_error(const Problem& /*problem*/, const Variant& /*variant*/,
                        double /*time_us*/) const override {
    return profile_.prediction_error("gemm");
  }

  std::optional<std::string> beyond_limits(const Problem& problem, const Variant& variant,
                                           int ctas_per_sm) const override {
    return beyond_walk_limits(gemm_launch_on_gpu(problem.as<GemmProblem>(),
                                                 variant.as<GemmVariant>(), ctas_per_sm, profile_));
  }

  void prepare(const Problem& problem, const Variant& variant, int ctas_per_sm) override {
    walks_.prepare(gemm_launch_on_gpu(problem.as<GemmProblem>(), variant.as<GemmVariant>(),
                                      ctas_per_sm, profile_));
  }

  KernelResources estimated_resources(const Problem& problem,
                                      const Variant& variant) const override {
    return swr::estimated_resources(problem.as<GemmProblem>(), variant.as<GemmVariant>());
  }

  /// A walk takes up to a second for the largest matrices.
  std::optional<double> floor_us(const Problem& problem, const Variant& variant) const override {
    return gemm_floor_us(problem.as<GemmProblem>(), variant.as<GemmVariant>(), profile_);
  }

 private:
  GpuProfile profile_;
  TrafficMemo<GemmLaunch, GemmTraffic> walks_;
};

}  // namespace

KernelResources estimated_resources(const GemmProblem& problem, const GemmVariant& variant) {
  /// Addresses, and operands on their way.
  constexpr int kWorkingRegisters = 60;
  constexpr int kMostRegisters = 255;
  constexpr int kRegistersPerSm = 65536;
  return std::visit(
      [](const auto& config) {
        // A CTA owns what its threads hold at entry, also when warpgroups trade registers later.
        const int share = kRegistersPerSm / config.threads() / 8 * 8;
        const int wanted = config.accumulator_registers() + kWorkingRegisters;
        return KernelResources{.registers_per_thread = std::min({wanted, share, kMostRegisters})};
      },
      make_gemm_config(problem, variant));
}

std::unique_ptr<Predictor> make_gemm_predictor(const GpuProfile& profile) {
  return std::make_unique<GemmPredictor>(profile);
}

}  // namespace swr
