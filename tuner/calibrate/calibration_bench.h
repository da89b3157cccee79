// SPDX-License-Identifier: MIT
// The calibration kernels (templates/calibration) on one device, each wrapped into the number it is
// there for.
#pragma once

#include "driver/cuda_driver.h"
#include "driver/range_profiler.h"
#include <swr/device.h>
#include <swr/generator.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// Clocks of atomics from SMs to lines.
struct AtomicLatencies {
  std::vector<unsigned> sms;  ///< The SM of each CTA, in the order of the CTAs.
  int lines = 0;
  std::vector<int> clocks;  ///< [CTA][line]
};

/// Lengths of the runs of neighbouring CTAs that share an L2 partition, as
/// ScheduleShape::partition_runs has them. Atomics are done in the partition that a line has its
/// home in, so the latencies of SMs of one partition go up and down together, against those of the
/// other: the sign of the first principal component tells them apart. Empty when the SMs do not
/// fall into two clear groups, or two CTAs shared an SM.
std::vector<int> partition_runs(const AtomicLatencies& latencies);

/// A rate loop on every SM.
struct RateMeasurement {
  double results_per_clock_per_sm = 0.0;
  double clock_mhz = 0.0;  ///< SM clocks over the time of the whole loop.
};

/// A buffer read again and again by one CTA per SM.
struct SweepMeasurement {
  double time_us = 0.0;
  /// Empty when counters are refused.
  std::optional<long long> dram_read_bytes;
};

class CalibrationBench {
 public:
  /// Throws: Error{compile_failed}; DriverError.
  CalibrationBench(const Generator& generator, const DeviceInfo& device, int ordinal);

  /// Lanes of FMA, of ex2, and fp16 operations of mma.sync (multiply and add count two).
  RateMeasurement fma_rate() const;
  RateMeasurement exp2_rate() const;
  RateMeasurement mma_rate() const;

  /// Clocks from a load to its data, for scattered lines of a buffer that L2 holds.
  double l2_latency_clocks(long long buffer_bytes) const;
  /// The same for a buffer of which nothing is in L2.
  double dram_latency_clocks(long long buffer_bytes) const;

  /// GB/s that all SMs together get from a buffer that L2 holds, each at another place of it.
  double l2_gb_per_s(long long buffer_bytes) const;

  /// GB/s that memory delivers when a buffer far larger than L2 is read once.
  double dram_gb_per_s(long long buffer_bytes) const;

  /// What atomics from every SM to scattered lines take.
  AtomicLatencies atomic_latencies() const;

  SweepMeasurement sweep(long long buffer_bytes, int rounds, bool sawtooth) const;

  /// Why sweeps carry no DRAM bytes; empty when they do.
  const std::string& no_counters_because() const { return no_counters_because_; }

 private:
  using Launch = std::function<void(CUdeviceptr clocks, CUdeviceptr sink)>;

  RateMeasurement rate(const Launch& launch, double results_per_sm) const;
  double chase_clocks(const DeviceBuffer& linked, int steps) const;
  DeviceBuffer linked_lines(unsigned lines) const;
  double best_time_us(const std::function<void()>& launch) const;

  DeviceInfo device_;
  PrimaryContext context_;
  Stream stream_;
  DeviceBuffer results_;
  Kernel fma_;
  Kernel exp2_;
  Kernel mma_;
  Kernel sweep_;
  Kernel stream_once_;
  Kernel link_;
  Kernel chase_;
  Kernel atomic_latency_;
  std::unique_ptr<RangeProfiler> profiler_;
  std::string no_counters_because_;
};

}  // namespace swr
