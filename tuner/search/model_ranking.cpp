// SPDX-License-Identifier: MIT
#include "tuner/search/model_ranking.h"

#include "core/attention_config.h"
#include "core/gemm_config.h"
#include "core/operation.h"
#include "tuner/model/predicting_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace swr {
namespace {

/// GEMM variants of a space whose schedules are walked to rank it.
constexpr std::size_t kWalkedGemmVariants = 96;

/// Times by the model of kernels of the resources estimated; infinity for one that cannot run.
template <typename OneProblem, typename OneVariant>
std::vector<double> predicted_us(PredictingEvaluator& model, const OneProblem& problem,
                                 const std::vector<OneVariant>& variants) {
  std::vector<CompiledKernel> kernels(variants.size());
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    kernels[i].resources = estimated_resources(problem, variants[i]);
    contenders.push_back({variants[i], &kernels[i]});
  }
  model.expect(problem, contenders);
  std::vector<double> times_us;
  for (const auto& [variant, kernel] : contenders) {
    const VariantResult result = model.evaluate(problem, variant, *kernel);
    times_us.push_back(result.state == ResultState::ok ? result.time_us()
                                                       : std::numeric_limits<double>::infinity());
  }
  return times_us;
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
      (steps * gemm_step_clocks(variant, profile) + kOutputClocksPerColumn * variant.tile_n +
       (variant.splits > 1 ? kSplitClocks : 0) + (variant.cluster_k > 1 ? kClusterClocks : 0));
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  const double dram_us = static_cast<double>(bytes.read + bytes.write) /
                         (profile.device.dram_gb_per_s * profile.dram_efficiency) / 1e3;
  return std::max(clocks / profile.clock_mhz, dram_us);
}

using OfGemm = std::vector<GemmVariant>;

std::vector<double> gemm_floors_us(const GemmProblem& problem, const OfGemm& variants,
                                   const GpuProfile& profile) {
  std::vector<double> floors_us;
  std::ranges::transform(variants, std::back_inserter(floors_us), [&](const GemmVariant& variant) {
    return gemm_floor_us(problem, variant, profile);
  });
  return floors_us;
}

/// Places of the lowest floors.
std::vector<std::size_t> lowest(const std::vector<double>& floors_us, std::size_t count) {
  std::vector<std::size_t> places(floors_us.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t place) { return floors_us[place]; });
  places.resize(std::min(count, places.size()));
  return places;
}

/// How much longer than their floors variants take by the model, in the median.
double median_excess(const std::vector<std::size_t>& places, const std::vector<double>& floors_us,
                     const std::vector<double>& predicted_us) {
  std::vector<double> ratios;
  for (const std::size_t place : places) {
    ratios.push_back(predicted_us[place] / floors_us[place]);
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

std::vector<double> ranking_us(PredictingEvaluator& model, const AttentionProblem& problem,
                               const std::vector<AttentionVariant>& variants,
                               const GpuProfile& /*profile*/) {
  return predicted_us(model, problem, variants);
}

/// A walk takes up to a second for the largest matrices, so only what the floors put first is
/// walked. The others keep their floors, raised as much as the walk raised those.
std::vector<double> ranking_us(PredictingEvaluator& model, const GemmProblem& problem,
                               const OfGemm& variants, const GpuProfile& profile) {
  std::vector<double> times_us = gemm_floors_us(problem, variants, profile);
  const std::vector<std::size_t> walked = lowest(times_us, kWalkedGemmVariants);
  if (walked.empty()) {
    return times_us;
  }
  OfGemm chosen;
  for (const std::size_t place : walked) {
    chosen.push_back(variants[place]);
  }
  const std::vector<double> walked_us = predicted_us(model, problem, chosen);
  std::vector<double> predicted = times_us;
  for (std::size_t i = 0; i < walked.size(); ++i) {
    predicted[walked[i]] = walked_us[i];
  }
  const double excess = median_excess(walked, times_us, predicted);
  for (double& time_us : times_us) {
    time_us *= excess;
  }
  for (const std::size_t place : walked) {
    times_us[place] = predicted[place];
  }
  return times_us;
}

template <typename OneVariant>
std::vector<OneVariant> of_operation(const std::vector<Variant>& variants) {
  std::vector<OneVariant> chosen;
  std::ranges::transform(variants, std::back_inserter(chosen),
                         [](const Variant& variant) { return std::get<OneVariant>(variant); });
  return chosen;
}

}  // namespace

KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant) {
  /// Operands, addresses and softmax state: what PortableAttentionConfig::q_in_registers leaves room for.
  constexpr int kWorkingRegisters = 60;
  if (variant.family == Family::hopper) {
    return {.registers_per_thread = make_hopper_config(problem, variant).entry_registers()};
  }
  const PortableAttentionConfig config = make_attention_config(problem, variant);
  const int q_registers = config.q_in_registers() ? config.m_blocks() * config.head_dim / 4 : 0;
  const int wanted = config.accumulator_registers() + q_registers + kWorkingRegisters;
  return {.registers_per_thread = std::min(wanted, config.register_limit())};
}

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

PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads) {
  return [problem, device, threads](const std::vector<Variant>& variants) {
    const GpuProfile profile = profile_for_device(device);
    PredictingEvaluator model(profile, threads);
    return std::visit(
        [&]<typename OneProblem>(const OneProblem& one) {
          using OneVariant = typename VariantOf<OneProblem>::type;
          return ranking_us(model, one, of_operation<OneVariant>(variants), profile);
        },
        problem);
  };
}

}  // namespace swr
