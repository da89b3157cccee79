// SPDX-License-Identifier: MIT
#include "tuner/statistics/stopping_rule.h"

#include "tuner/statistics/statistics.h"

#include <algorithm>

namespace swr {

StoppingRule::StoppingRule(const StoppingOptions& options) : options_(options) {
  options_.fewest = std::min(options_.fewest, options_.most);
}

void StoppingRule::add(double sample_us, double cost_us) {
  samples_us_.push_back(sample_us);
  spent_us_ += cost_us;
}

bool StoppingRule::is_finished() const {
  constexpr int kWhateverTheBudget = 5;
  constexpr double kConfidence = 0.95;
  const int taken = static_cast<int>(samples_us_.size());
  if (taken >= options_.most) {
    return true;
  }
  if (taken >= kWhateverTheBudget && spent_us_ >= options_.budget_us) {
    return true;
  }
  if (taken < options_.fewest) {
    return false;
  }
  const Interval interval = median_interval(samples_us_, kConfidence);
  return interval.high - interval.low <= options_.relative_width * median(samples_us_);
}

}  // namespace swr
