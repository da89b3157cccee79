// SPDX-License-Identifier: MIT
// Keeps a GPU at launches of one kernel, back to back, and says how long one takes meanwhile.
#pragma once

#include "driver/cuda_driver.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace swr {

class SustainedLaunches {
 public:
  /// `launch` enqueues one launch on the stream, `launch_us` is what it takes, roughly. Short ones
  /// are replayed from a graph. Throws: what `launch` throws; DriverError.
  SustainedLaunches(const Stream& stream, std::function<void()> launch, double launch_us);

  /// Enqueues work for a few milliseconds unless that much waits already; does not wait for the
  /// GPU. Throws: DriverError, also when the kernel faults.
  void keep_busy();

  /// From the next batch on launches are timed.
  void begin_timing() { first_.reset(); }

  /// Waits for all launches, and gives the mean time of one since timing began, microseconds.
  /// Throws: DriverError. Requires: keep_busy() was called since, and found the GPU at work.
  double finish_us();

 private:
  void enqueue_batch();

  const Stream& stream_;
  std::function<void()> launch_;
  int launches_per_batch_;
  std::optional<Graph> graph_;
  /// Ends of batches that may not be over yet, oldest first.
  std::deque<std::unique_ptr<Event>> waiting_;
  std::unique_ptr<Event> first_;  ///< End of the batch with which timing began.
  long long batches_after_first_ = 0;
};

}  // namespace swr
