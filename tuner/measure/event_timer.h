// SPDX-License-Identifier: MIT
// Times launches of one kernel with CUDA events.
#pragma once

#include "tuner/driver/cuda_driver.h"

#include <functional>
#include <vector>

namespace swr {

/// How a kernel is sampled.
struct SamplingPlan {
  int samples = 1;
  int launches_per_sample = 1;
};

/// Plans from the duration of one launch. A sample spans at least 200 microseconds, by repeating
/// short kernels, because events resolve about half a microsecond and the gap between launches
/// shows otherwise. All samples together stay within 10 seconds, but never fewer than 5 (or than
/// wanted) are taken.
SamplingPlan plan_samples(double launch_us, int wanted_samples);

class EventTimer {
 public:
  explicit EventTimer(const Stream& stream) : stream_(stream) {}

  /// Microseconds per launch, one value per sample, in the order taken. `launch` enqueues one
  /// launch on the stream. Throws: what `launch` throws; DriverError when the kernel faults.
  std::vector<double> sample(const std::function<void()>& launch, int warmup_launches,
                             int wanted_samples) const;

 private:
  double time_once(const std::function<void()>& launch, int launches) const;

  const Stream& stream_;
  Event start_;
  Event stop_;
};

}  // namespace swr
