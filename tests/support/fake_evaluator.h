// SPDX-License-Identifier: MIT
// An evaluator without a GPU: times follow from the variant, so runs repeat exactly.
#pragma once

#include "core/operation.h"
#include "tests/support/fictional.h"
#include "tuner/evaluator.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace swr::test {

/// Of evaluators that only evaluate: the rest is told to be missing.
class PlainEvaluator : public Evaluator {
 public:
  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    return {contenders.size(), CounterReading{std::nullopt, "a fake has no counters"}};
  }
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  RaceResult race(const Problem& /*problem*/, std::span<const Contender> /*contenders*/,
                  const RaceOptions& /*options*/) override {
    return {};
  }
};

class FakeEvaluator final : public PlainEvaluator {
 public:
  using Script = std::function<void(VariantResult&)>;

  explicit FakeEvaluator(DeviceInfo device) : device_(std::move(device)) {}

  const DeviceInfo& device() const override { return device_; }

  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    VariantResult result;
    result.variant = variant;
    result.resources = kernel.resources;
    result.smem_bytes = smem_bytes(problem, variant);
    result.ctas_per_sm = occupancy(kernel.resources, problem, variant, device_).ctas_per_sm;
    result.cubin_digest = kernel.cubin_digest;
    const int stages = axis_named(variant.operation(), "stages").read(variant.members());
    result.outcome = Prediction{.time_us = 1.0 + stages};
    keys.push_back(to_key(variant));
    unexpected += std::ranges::find(expected, keys.back()) == expected.end() ? 1 : 0;
    if (script) {
      script(result);
    }
    return result;
  }

  void expect(const Problem& /*problem*/, std::span<const Contender> contenders) override {
    expected.clear();
    for (const Contender& contender : contenders) {
      expected.push_back(to_key(contender.variant));
    }
  }

  std::size_t kernels_ahead() const override { return ahead; }

  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    RaceResult result;
    for (const Contender& contender : contenders) {
      const double time_us =
          race_factor * evaluate(problem, contender.variant, *contender.kernel).time_us();
      result.samples_us.emplace_back(static_cast<std::size_t>(options.rounds), time_us);
    }
    return result;
  }

  /// Changes a result, or throws, before it is returned.
  Script script;
  /// By how much a race takes longer than the screening.
  double race_factor = 1.0;
  /// Keys of the variants in the order evaluated.
  std::vector<std::string> keys;
  /// How many kernels it looks ahead.
  std::size_t ahead = 0;
  std::vector<std::string> expected;  ///< Keys of the variants named last.
  int unexpected = 0;                 ///< Variants evaluated that were not among them.

 private:
  DeviceInfo device_;
};

}  // namespace swr::test
