// SPDX-License-Identifier: MIT
// A GPU made of arithmetic that has a power as well, for tests of objectives.
#pragma once

#include "tests/support/noisy_evaluator.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace swr::test {

class EnergyEvaluator final : public NoisyEvaluator {
 public:
  using PowerOf = std::function<double(const Variant&)>;

  EnergyEvaluator(DeviceInfo device, std::function<double(const Variant&)> true_time_us,
                  PowerOf power_w)
      : NoisyEvaluator(std::move(device), true_time_us, 1),
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
  std::function<double(const Variant&)> time_us_;
  PowerOf power_w_;
};

}  // namespace swr::test
