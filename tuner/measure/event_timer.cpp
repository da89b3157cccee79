// SPDX-License-Identifier: MIT
#include "tuner/measure/event_timer.h"

#include <algorithm>
#include <cmath>

namespace swr {

SamplingPlan plan_samples(double launch_us, int wanted_samples) {
  constexpr double kSampleUs = 200.0;
  constexpr double kBudgetUs = 10e6;
  constexpr double kMaxLaunches = 1000.0;
  constexpr int kFewestSamples = 5;
  const double duration_us = std::max(launch_us, 1e-3);
  const double launches = std::clamp(std::ceil(kSampleUs / duration_us), 1.0, kMaxLaunches);
  const double affordable = std::floor(kBudgetUs / (launches * duration_us));
  const int fewest = std::min(kFewestSamples, wanted_samples);
  const int samples = affordable >= wanted_samples ? wanted_samples : static_cast<int>(affordable);
  return {.samples = std::max(samples, fewest), .launches_per_sample = static_cast<int>(launches)};
}

double EventTimer::time_once(const std::function<void()>& launch, int launches) const {
  start_.record(stream_);
  for (int i = 0; i < launches; ++i) {
    launch();
  }
  stop_.record(stream_);
  return stop_.elapsed_us_since(start_) / launches;
}

std::vector<double> EventTimer::sample(const std::function<void()>& launch, int warmup_launches,
                                       int wanted_samples) const {
  for (int i = 0; i < warmup_launches; ++i) {
    launch();
  }
  const SamplingPlan plan = plan_samples(time_once(launch, 1), wanted_samples);
  std::vector<double> samples_us;
  samples_us.reserve(static_cast<std::size_t>(plan.samples));
  for (int i = 0; i < plan.samples; ++i) {
    samples_us.push_back(time_once(launch, plan.launches_per_sample));
  }
  return samples_us;
}

}  // namespace swr
