// SPDX-License-Identifier: MIT
// A GPU that behaves like the H200 of the recordings: true times are those of a recorded space,
// and around them is the noise that was found there (experiments/measuring).
#pragma once

#include "core/recorded_space.h"
#include "tuner/evaluator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace swr::test {

class RecordedGpu final : public Evaluator {
 public:
  RecordedGpu(const RecordedSpace& space, unsigned long long seed) : space_(space), random_(seed) {
    std::mt19937_64 traits(1);  // What belongs to a kernel, not to an occasion.
    for (const VariantResult& result : space.results) {
      Kernel& kernel = kernels_[result.variant];
      kernel.recorded = &result;
      kernel.spread = kSampleNoise * std::exp(0.8 * normal(traits));
      if (uniform(traits) < kTwoLevels) {
        kernel.slow_share = uniform(traits);
        kernel.slow_by = kMostSlow * uniform(traits);
      }
    }
  }

  const DeviceInfo& device() const override { return space_.device; }

  VariantResult evaluate(const Problem& /*problem*/, const Variant& variant,
                         const CompiledKernel& /*kernel*/) override {
    const Kernel& kernel = kernels_.at(variant);
    VariantResult result = *kernel.recorded;
    if (result.state != ResultState::ok) {
      return result;
    }
    const double occasion = std::exp(occasion_noise());
    Measurement& measurement = std::get<Measurement>(result.outcome);
    for (int i = 0; i < 10; ++i) {
      measurement.samples_us.push_back(level_us(kernel) * occasion *
                                       std::exp(kScreeningNoise * normal(random_)));
    }
    auto sorted = measurement.samples_us;
    std::ranges::sort(sorted);
    measurement.median_us = (sorted[4] + sorted[5]) / 2;
    measurement.p95_us = sorted[9];
    if (measurement.counters) {
      Counters& counters = *measurement.counters;
      counters.dram_read_bytes = static_cast<long long>(
          static_cast<double>(counters.dram_read_bytes) * std::exp(0.05 * normal(random_)));
    }
    return result;
  }

  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    return {contenders.size(), CounterReading{std::nullopt, "counted with evaluate()"}};
  }

  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }

  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }

  RaceResult race(const Problem& /*problem*/, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    RaceResult result;
    std::vector<double> rounds(static_cast<std::size_t>(options.rounds));
    for (double& drift : rounds) {
      clock_ *= std::exp(0.001 * normal(random_));
      drift = clock_;
    }
    for (const Contender& contender : contenders) {
      const Kernel& kernel = kernels_.at(contender.variant);
      const double place = std::exp(kPlaceNoise * normal(random_));
      std::vector<double>& samples_us = result.samples_us.emplace_back();
      for (const double drift : rounds) {
        samples_us.push_back(level_us(kernel) * place * drift *
                             std::exp(kernel.spread * normal(random_)));
      }
    }
    return result;
  }

 private:
  struct Kernel {
    const VariantResult* recorded = nullptr;
    double spread = 0.0;  ///< Standard deviation of a sample in shared rounds, as a share.
    /// How often it runs at its slower level, and how much slower that is, as a share.
    double slow_share = 0.0;
    double slow_by = 0.0;
  };

  static constexpr double kScreeningNoise = 0.0018;
  static constexpr double kSampleNoise = 0.004;
  /// Standard deviation between races, whose code and tensors lie elsewhere, as a share.
  static constexpr double kPlaceNoise = 0.003;
  /// Share of kernels that run at two levels as their CTAs fall on the SMs, and the most that these
  /// are apart, as a share.
  static constexpr double kTwoLevels = 0.15;
  static constexpr double kMostSlow = 0.12;

  static double uniform(std::mt19937_64& random) {
    return std::uniform_real_distribution<double>()(random);
  }
  /// The time of a sample but for noise.
  double level_us(const Kernel& kernel) {
    const bool is_slow = uniform(random_) < kernel.slow_share;
    return kernel.recorded->time_us() * (is_slow ? 1.0 + kernel.slow_by : 1.0);
  }
  static double normal(std::mt19937_64& random) {
    std::normal_distribution<double> distribution;
    return distribution(random);
  }

  /// What one occasion of timing a kernel differs from another by: mostly a few tenths of a
  /// percent, one time in a hundred more than 2.3 percent.
  double occasion_noise() {
    const auto percentile = random_() % 100;
    const double spread = percentile < 80 ? 0.002 : percentile < 96 ? 0.007 : 0.02;
    return spread * normal(random_);
  }

  const RecordedSpace& space_;
  std::map<Variant, Kernel> kernels_;
  std::mt19937_64 random_;
  double clock_ = 1.0;
};

}  // namespace swr::test
