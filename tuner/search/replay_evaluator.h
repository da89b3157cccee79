// SPDX-License-Identifier: MIT
// A recorded space in the place of a GPU: the tuner searches it with any strategy, off-line.
#pragma once

#include "core/recorded_space.h"
#include "tuner/evaluator.h"

#include <map>
#include <span>
#include <vector>

namespace swr {

/// Every answer is the recording's; kernels are not looked at.
class ReplayEvaluator final : public Evaluator {
 public:
  /// Throws: Error{nothing_stored} for a space without a success, in which nothing can be found.
  explicit ReplayEvaluator(RecordedSpace space);

  const RecordedSpace& space() const { return space_; }
  /// The recorded variants in an order that says nothing of their times.
  std::vector<Variant> variants() const;

  const DeviceInfo& device() const override { return space_.device; }
  /// The recorded row, without its counters, which count() gives.
  /// Throws, as the following: Error{invalid_argument} for a problem or variant that is not
  /// recorded.
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override;
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override;
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  /// The recorded time in every round.
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override;

 private:
  const VariantResult& recorded(const Problem& problem, const Variant& variant) const;

  RecordedSpace space_;
  std::map<Variant, std::size_t> place_of_;  ///< In the space's results.
};

}  // namespace swr
