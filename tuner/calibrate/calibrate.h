// SPDX-License-Identifier: MIT
// A profile of the GPU present, from measurements on it.
#pragma once

#include "model/profile/gpu_profile.h"
#include "tuner/calibrate/sweep.h"
#include <swr/generator.h>

#include <functional>
#include <string>
#include <vector>

namespace swr {

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
