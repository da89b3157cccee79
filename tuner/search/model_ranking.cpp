// SPDX-License-Identifier: MIT
#include "tuner/search/model_ranking.h"

#include "core/attention_config.h"
#include "core/gemm_config.h"
#include "core/operation.h"
#include "tuner/model/predicting_evaluator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

namespace swr {
namespace {

double predicted_us(PredictingEvaluator& model, const AttentionProblem& problem,
                    const AttentionVariant& variant) {
  CompiledKernel kernel;
  kernel.resources = estimated_resources(problem, variant);
  const VariantResult result = model.evaluate(problem, variant, kernel);
  return result.state == ResultState::ok ? result.time_us()
                                         : std::numeric_limits<double>::infinity();
}

/// Clocks of one step over k of a CTA: products at the family's rate, or its bytes at its share of
/// the L2's bandwidth, and a share for barriers and issue.
double gemm_step_clocks(const GemmVariant& variant, const GpuProfile& profile) {
  constexpr double kWgmmaFlopPerClock = 4096.0;
  constexpr double kFixedClocks = 100.0;
  const double flop_per_clock =
      variant.family == Family::hopper ? kWgmmaFlopPerClock : profile.matrix_flop_per_clock_per_sm;
  const double products = 2.0 * variant.tile_m * variant.tile_n * variant.tile_k / flop_per_clock;
  const double l2_bytes_per_clock =
      profile.l2_gb_per_s * 1e3 / profile.clock_mhz / profile.device.sm_count;
  const double bytes = 2.0 * variant.tile_k *
                       (static_cast<double>(variant.tile_m) / variant.cluster_n +
                        static_cast<double>(variant.tile_n) / variant.cluster_m);
  return kFixedClocks + std::max(products, bytes / l2_bytes_per_clock);
}

/// Likewise a floor, for GEMM: rounds of tiles, each as long as its steps over k and its output,
/// or the bytes of the problem at the memory's bandwidth.
double gemm_floor_us(const GemmProblem& problem, const GemmVariant& variant,
                     const GpuProfile& profile) {
  constexpr double kOutputClocksPerColumn = 4.0;
  constexpr double kSplitClocks = 4000.0;  ///< Writing, fetching and adding partial sums.
  const GemmSchedule schedule = std::visit(
      [&](const auto& config) { return config.schedule(make_gemm_params(problem, variant)); },
      make_gemm_config(problem, variant));
  const double items = static_cast<double>(schedule.work_items()) * schedule.ctas_per_cluster();
  const double rounds = std::ceil(items / profile.device.sm_count);
  const double steps = std::ceil(static_cast<double>(problem.k) / variant.tile_k / variant.splits);
  const double clocks =
      rounds * (steps * gemm_step_clocks(variant, profile) +
                kOutputClocksPerColumn * variant.tile_n + (variant.splits > 1 ? kSplitClocks : 0));
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  const double dram_us = static_cast<double>(bytes.read + bytes.write) /
                         (profile.device.dram_gb_per_s * profile.dram_efficiency) / 1e3;
  return std::max(clocks / profile.clock_mhz, dram_us);
}

double ranking_us(PredictingEvaluator& model, const AttentionProblem& problem,
                  const AttentionVariant& variant, const GpuProfile& /*profile*/) {
  return predicted_us(model, problem, variant);
}
double ranking_us(PredictingEvaluator& /*model*/, const GemmProblem& problem,
                  const GemmVariant& variant, const GpuProfile& profile) {
  return gemm_floor_us(problem, variant, profile);
}

}  // namespace

KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant) {
  /// Operands, addresses and softmax state: what AttentionConfig::q_in_registers leaves room for.
  constexpr int kWorkingRegisters = 60;
  if (variant.family == Family::hopper) {
    return {.registers_per_thread = make_hopper_config(problem, variant).entry_registers()};
  }
  const AttentionConfig config = make_attention_config(problem, variant);
  const int q_registers = config.q_in_registers() ? config.m_blocks() * config.head_dim / 4 : 0;
  const int wanted = config.accumulator_registers() + q_registers + kWorkingRegisters;
  return {.registers_per_thread = std::min(wanted, config.register_limit())};
}

PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads) {
  return [problem, device, threads](const std::vector<Variant>& variants) {
    const GpuProfile profile = profile_for_device(device);
    PredictingEvaluator model(profile);
    std::vector<double> times_us(variants.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < variants.size(); i = next++) {
        times_us[i] =
            visit_operation(problem, variants[i], [&](const auto& one, const auto& variant) {
              return ranking_us(model, one, variant, profile);
            });
      }
    };
    std::vector<std::jthread> workers;
    for (int i = 1; i < threads; ++i) {
      workers.emplace_back(work);
    }
    work();
    workers.clear();
    return times_us;
  };
}

}  // namespace swr
