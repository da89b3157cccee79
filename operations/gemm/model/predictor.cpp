// SPDX-License-Identifier: MIT
#include "model/l2/traffic_memo.h"
#include "operations/gemm/config.h"
#include "operations/gemm/model/time.h"
#include "operations/gemm/model/walk.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/kernel.h>

#include <algorithm>
#include <limits>

namespace swr {
namespace {

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
    return unwalked_time_us(problem.as<GemmProblem>(), variant.as<GemmVariant>(), profile_);
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

double unwalked_time_us(const GemmProblem& problem, const GemmVariant& variant,
                        const GpuProfile& profile) {
  const int ctas_per_sm =
      occupancy(estimated_resources(problem, variant), problem, variant, profile.device)
          .ctas_per_sm;
  if (ctas_per_sm < 1) {
    return std::numeric_limits<double>::infinity();
  }
  const GemmLaunch launch = gemm_launch_on_gpu(problem, variant, ctas_per_sm, profile);
  return predict_gemm_time(problem, variant, launch, unwalked_gemm_traffic(launch), profile)
      .time_us;
}

std::unique_ptr<Predictor> make_gemm_predictor(const GpuProfile& profile) {
  return std::make_unique<GemmPredictor>(profile);
}

}  // namespace swr
