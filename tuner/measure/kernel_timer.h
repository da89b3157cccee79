// SPDX-License-Identifier: MIT
// Times launches of one kernel with CUDA events, one by one or while a GPU is kept at them.
#pragma once

#include "core/statistics/statistics.h"
#include "driver/cuda_driver.h"
#include "operations/workload.h"

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
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
  /// Runs the warm-up launches, of long kernels two. Throws: what these throw; DriverError when the
  /// kernel faults.
  KernelTimer(const Stream& stream, Enqueue launch, Before before, int warmup_launches);

  /// Samples taken one right after the other, in microseconds per launch. The host stays ahead of
  /// the GPU, so that its own work is not in them.
  /// Throws: as the constructor. Requires: 1 <= count <= kBatch.
  std::vector<double> sample(int count);

  /// The two halves of a sample of a kernel so long that what the host and the L2 add to it does
  /// not show: those of several kernels are enqueued one behind the other, without a launch of
  /// each before. Throws: as sample(). Requires: 0 <= place < kBatch; is_long() for the first.
  void enqueue_timed(int place);
  double timed_us(int place) const;
  bool is_long() const { return launch_us_ >= kLongUs; }

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
  double launch_us_ = 0.0;  ///< Roughly, on a warm L2.
  std::optional<Graph> graph_;
  std::array<Event, kBatch> starts_;
  std::array<Event, kBatch> stops_;
};

// Keeps a GPU at launches of one kernel, back to back, and says how long one takes meanwhile.

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

// Leaves to chance what a kernel's time depends on beside the kernel: how its CTAs fall on the SMs
// and where its tensors lie (docs/measuring.md).

/// The kernel that does so, for the current context.
struct PlacementKernels {
  /// Throws: Error{compile_failed}; DriverError.
  PlacementKernels(const Generator& generator, int sm_arch)
      : shake_placement(
            generator
                .compile_template("reference/shake_placement.cu", "swr_shake_placement", sm_arch)
                .cubin,
            "swr_shake_placement") {}

  Kernel shake_placement;
};

/// Enqueues launches that leave the GPU's distribution of CTAs in drawn states.
class PlacementShaker {
 public:
  PlacementShaker(const WorkloadTools& tools, unsigned long long seed)
      : kernel_(tools.kernels<PlacementKernels>().shake_placement),
        sm_count_(tools.sm_count),
        random_(seed) {}

  /// One launch; it touches no memory. Throws: DriverError.
  void shake(const Stream& stream) {
    // Fewer CTAs than SMs up to two waves of them, for each state that launches may leave.
    const auto most = static_cast<unsigned>(4 * sm_count_);
    kernel_.launch({.grid_x = 1 + static_cast<unsigned>(random_()) % most, .block_x = 1024}, stream,
                   static_cast<unsigned>(random_()));
  }

 private:
  const Kernel& kernel_;
  int sm_count_;
  std::mt19937_64 random_;
};

/// A copy of a workload, behind a gap.
struct RaceMemory {
  DeviceBuffer gap;
  std::unique_ptr<Workload> workload;
};

/// Behind a gap of drawn size; empty where the memory does not suffice for both.
/// Throws: DriverError otherwise.
inline std::optional<RaceMemory> copy_elsewhere(Workload& original, std::mt19937_64& random) {
  constexpr std::size_t kStepBytes = std::size_t{64} << 10U;
  constexpr std::size_t kSteps = 512;
  try {
    DeviceBuffer gap(kStepBytes * (1 + random() % kSteps));
    return RaceMemory{std::move(gap), original.copy()};
  } catch (const DriverError& error) {
    if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace swr
