// SPDX-License-Identifier: MIT
// Times launches of one kernel with CUDA events.
#pragma once

#include "driver/cuda_driver.h"
#include "tuner/statistics/stopping_rule.h"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace swr {

class KernelTimer {
 public:
  using Enqueue = std::function<void()>;

  /// What is enqueued before each sample, outside of what is timed; either may be empty.
  struct Before {
    /// Empties the L2. Each sample is then a single launch.
    Enqueue flush_l2;
    /// Leaves the placement of CTAs to chance, after the flush.
    Enqueue shake_placement;
  };

  /// `launch` enqueues one launch on the stream. Without a flush launches run on a warm L2, and
  /// short kernels are replayed from a CUDA graph, whose gaps between launches are the smallest.
  /// Runs the warm-up launches. Throws: what these throw; DriverError when the kernel faults.
  KernelTimer(const Stream& stream, Enqueue launch, Before before, int warmup_launches);

  /// Samples taken one right after the other, in microseconds per launch. The host stays ahead of
  /// the GPU, so that its own work is not in them.
  /// Throws: as the constructor. Requires: 1 <= count <= kBatch.
  std::vector<double> sample(int count);

  /// GPU time that a sample costs besides flushing, from its time per launch.
  double cost_us(double sample_us) const { return sample_us * launches_; }

  static constexpr int kBatch = 5;

 private:
  void occupy_gpu() const;
  void enqueue_sample() const;

  const Stream& stream_;
  Enqueue launch_;
  Before before_;
  int launches_ = 1;
  std::optional<Graph> graph_;
  std::array<Event, kBatch> starts_;
  std::array<Event, kBatch> stops_;
};

}  // namespace swr
