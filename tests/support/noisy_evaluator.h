// SPDX-License-Identifier: MIT
// A GPU made of arithmetic: every variant has a true time, samples add seeded noise and a clock
// that drifts. Measured results, for tests of statistics.
#pragma once

#include "core/operation.h"
#include "tests/support/fake_evaluator.h"
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace swr::test {

/// A tile of attention of that width, timed once.
inline VariantResult measured(int tile_n, double median_us) {
  return {.variant = AttentionVariant{.tile_n = tile_n},
          .outcome =
              Measurement{.samples_us = {median_us}, .median_us = median_us, .p95_us = median_us}};
}

class NoisyEvaluator : public PlainEvaluator {
 public:
  using TimeOf = std::function<double(const Variant&)>;

  explicit NoisyEvaluator(TimeOf true_time_us, unsigned long long seed = 1,
                          DeviceInfo device = fictional_device())
      : device_(std::move(device)), true_time_us_(std::move(true_time_us)), random_(seed) {}
  /// All variants take as long.
  explicit NoisyEvaluator(double true_time_us)
      : NoisyEvaluator([true_time_us](const Variant&) { return true_time_us; }) {}

  const DeviceInfo& device() const override { return device_; }

  VariantResult evaluate(const Problem& /*problem*/, const Variant& variant,
                         const CompiledKernel& kernel) override {
    VariantResult result;
    result.variant = variant;
    result.resources = kernel.resources;
    result.ctas_per_sm = 1;
    Measurement measurement;
    for (int i = 0; i < 11; ++i) {
      measurement.samples_us.push_back(sample(variant));
    }
    auto sorted = measurement.samples_us;
    std::sort(sorted.begin(), sorted.end());
    measurement.median_us = sorted[5];
    measurement.p95_us = sorted[10];
    result.outcome = measurement;
    return result;
  }

  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    std::vector<CounterReading> readings;
    for (const Contender& contender : contenders) {
      Counters counters;
      counters.dram_read_bytes =
          excess_sectors ? kSectorBytes * excess_sectors(contender.variant) : 0;
      readings.push_back({counters, ""});
    }
    return readings;
  }

  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    ++access_counts;
    if (accesses_fail) {
      throw Error(ErrorCode::driver_failed, "the profiler fell over");
    }
    std::vector<AccessReading> readings;
    for (const Contender& contender : contenders) {
      const Variant& variant = contender.variant;
      const int stages = axis_named(variant.operation(), "stages").read(variant.members());
      readings.push_back(
          {AccessCounters{.smem_load_wavefronts = 100, .smem_load_conflicts = stages}, ""});
    }
    return readings;
  }

  RaceResult race(const Problem& /*problem*/, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    ++races;
    std::mt19937_64 order_of_rounds(options.seed);
    std::vector<std::size_t> order(contenders.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    RaceResult result;
    result.samples_us.resize(contenders.size());
    result.degraded_because = degraded_because;
    for (int round = 0; round < options.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), order_of_rounds);
      for (const std::size_t i : order) {
        result.samples_us[i].push_back(sample(contenders[i].variant));
      }
    }
    return result;
  }

  /// Standard deviation of a sample, as a share.
  double noise = 0.005;
  /// What the clock loses from one sample to the next, as a share.
  double drift_per_sample = 0.0;
  /// Sectors read from DRAM; none without.
  std::function<long long(const Variant&)> excess_sectors;
  std::string degraded_because;
  bool accesses_fail = false;
  int races = 0;
  int access_counts = 0;

 private:
  double sample(const Variant& variant) {
    std::normal_distribution<double> deviation(0.0, noise);
    slowdown_ *= 1.0 + drift_per_sample;
    return true_time_us_(variant) * slowdown_ * std::exp(deviation(random_));
  }

  DeviceInfo device_;
  TimeOf true_time_us_;
  std::mt19937_64 random_;
  double slowdown_ = 1.0;
};

// A GPU made of arithmetic that has a power as well, for tests of objectives.

class EnergyEvaluator final : public NoisyEvaluator {
 public:
  using PowerOf = std::function<double(const Variant&)>;

  EnergyEvaluator(TimeOf true_time_us, PowerOf power_w)
      : NoisyEvaluator(true_time_us),
        time_us_(std::move(true_time_us)),
        power_w_(std::move(power_w)) {
    noise = 0.0;
  }

  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    if (!missing_because.empty()) {
      return {std::max<std::size_t>(contenders.size(), 1),
              PowerReading{.missing_because = missing_because}};
    }
    if (contenders.empty()) {
      return {PowerReading{.power_w = 75.0}};
    }
    std::vector<PowerReading> readings;
    for (const Contender& contender : contenders) {
      measured.push_back(to_key(contender.variant));
      std::uniform_real_distribution<double> error(-power_error, power_error);
      readings.push_back(
          {power_w_(contender.variant) * (1.0 + error(random)), time_us_(contender.variant), ""});
    }
    return readings;
  }

  /// Keys of those whose power was asked for, in that order.
  std::vector<std::string> measured;
  /// Why no energy is known; empty when it is.
  std::string missing_because;
  double power_error = 0.0;  ///< The largest, as a share.
  std::mt19937_64 random{1};

 private:
  TimeOf time_us_;
  PowerOf power_w_;
};

}  // namespace swr::test
