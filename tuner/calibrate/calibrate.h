// SPDX-License-Identifier: MIT
// A profile of the GPU present, from measurements on it.
#pragma once

#include "model/profile/gpu_profile.h"
#include <swr/generator.h>

#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

inline constexpr int kSweepRounds = 8;

struct SweepPoint {
  long long buffer_bytes = 0;
  bool sawtooth = false;
  double time_us = 0.0;
  /// Empty when counters were refused.
  std::optional<long long> dram_read_bytes;
};

/// DRAM bytes that the model reads for a sweep, starting from an empty L2.
long long modelled_sweep_bytes(long long buffer_bytes, bool sawtooth, long long l2_effective_bytes);

/// The L2 capacity that explains the sawtooth sweeps: under least-recently-used replacement every
/// round after the first saves exactly what L2 holds. The mean over buffers that no longer fit at
/// all, which are those whose cyclic sweep reads them in full every round. Empty when no pair of
/// points says anything.
std::optional<long long> fitted_l2_bytes(std::span<const SweepPoint> points);

/// One row per point: measured time and DRAM bytes beside the modelled ones.
void write_sweep_csv(std::ostream& out, std::span<const SweepPoint> points,
                     long long l2_effective_bytes);

struct CalibrateOptions {
  int device_ordinal = 0;
  /// The profile's id.
  std::string id;
  /// Source written beside every measured number, e.g. with driver and date.
  std::string source;
  /// Called before each measurement with its name.
  std::function<void(const std::string&)> progress;
};

struct Calibration {
  GpuProfile profile;
  std::vector<SweepPoint> sweep;
  /// What could not be measured, so that the profile carries the nearest built-in one's number;
  /// empty when everything was.
  std::string incomplete_because;
};

/// Takes a few seconds and up to 2 GiB of device memory.
/// Throws: Error{no_driver}; Error{compile_failed}; DriverError.
Calibration calibrate(const Generator& generator, const CalibrateOptions& options);

}  // namespace swr
