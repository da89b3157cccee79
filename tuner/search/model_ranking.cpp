// SPDX-License-Identifier: MIT
#include "tuner/search/model_ranking.h"

#include "core/attention_config.h"
#include "templates/common/schedule.h"
#include "tuner/model/predicting_evaluator.h"
#include "tuner/model/time_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

namespace swr {
namespace {

/// Clocks of one KV step of a CTA of the Hopper family at wgmma's rate, with a fixed share for
/// barriers and issue.
double hopper_step_clocks(const AttentionProblem& problem, const Variant& variant,
                          const GpuProfile& profile) {
  constexpr double kWgmmaFlopPerClock = 4096.0;
  constexpr double kFixedClocks = 150.0;
  const double scores = static_cast<double>(variant.tile_m) * variant.tile_n;
  const double matrix_clocks = 4.0 * scores * problem.head_dim / kWgmmaFlopPerClock;
  const double softmax_clocks = scores / profile.exp2_per_clock_per_sm;
  const bool overlaps = make_hopper_config(problem, variant).overlaps();
  return kFixedClocks +
         (overlaps ? std::max(matrix_clocks, softmax_clocks) : matrix_clocks + softmax_clocks / 2);
}

/// A floor that orders tiles of the Hopper family, which the model does not know, well enough to
/// start a search that corrects it by what it measures. Never shown as a prediction.
double hopper_floor_us(const AttentionProblem& problem, const Variant& variant,
                       const GpuProfile& profile) {
  const SequenceShape shape{problem.seq_q, problem.seq_kv, problem.causal};
  const int q_tiles = ceil_div(problem.seq_q, variant.tile_m);
  long long steps_per_head = 0;
  for (int q = 0; q < q_tiles; ++q) {
    steps_per_head += kv_tile_count(q, variant.tile_m, variant.tile_n, shape);
  }
  const double heads = static_cast<double>(problem.batch) * problem.heads_q;
  const double waves = q_tiles * heads / profile.device.sm_count;
  const double tail = variant.persistence == Persistence::snake ? 1.0 : std::ceil(waves) / waves;
  const double steps_per_sm = static_cast<double>(steps_per_head) * heads / profile.device.sm_count;
  return steps_per_sm * tail * hopper_step_clocks(problem, variant, profile) / profile.clock_mhz;
}

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
    const GpuProfile profile = profile_for_device(device);
    PredictingEvaluator model(profile);
    std::vector<double> times_us(variants.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < variants.size(); i = next++) {
        times_us[i] = is_modelled(variants[i].family)
                          ? predicted_us(model, problem, variants[i])
                          : hopper_floor_us(problem, variants[i], profile);
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
