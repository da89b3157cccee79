// SPDX-License-Identifier: MIT
#include "tuner/search/model_ranking.h"

#include "core/attention_config.h"
#include "tuner/model/predicting_evaluator.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

namespace swr {
namespace {

double predicted_us(PredictingEvaluator& model, const AttentionProblem& problem,
                    const Variant& variant) {
  CompiledKernel kernel;
  kernel.resources = estimated_resources(problem, variant);
  const VariantResult result = model.evaluate(problem, variant, kernel);
  return result.state == ResultState::ok ? result.time_us()
                                         : std::numeric_limits<double>::infinity();
}

}  // namespace

KernelResources estimated_resources(const AttentionProblem& problem, const Variant& variant) {
  /// Operands, addresses and softmax state: what AttentionConfig::q_in_registers leaves room for.
  constexpr int kWorkingRegisters = 60;
  const AttentionConfig config = make_attention_config(problem, variant);
  const int q_registers = config.q_in_registers() ? config.m_blocks() * config.head_dim / 4 : 0;
  const int wanted = config.accumulator_registers() + q_registers + kWorkingRegisters;
  return {.registers_per_thread = std::min(wanted, config.register_limit())};
}

PredictTimes model_predictor(const AttentionProblem& problem, const DeviceInfo& device,
                             int threads) {
  return [problem, device, threads](const std::vector<Variant>& variants) {
    PredictingEvaluator model(profile_for_device(device));
    std::vector<double> times_us(variants.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < variants.size(); i = next++) {
        times_us[i] = predicted_us(model, problem, variants[i]);
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
