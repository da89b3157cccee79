// SPDX-License-Identifier: MIT
// From --gpu to a device: one that is present is measured, another one is predicted.
#pragma once

#include "tuner/model/gpu_profile.h"
#include <swr/device.h>
#include <swr/result.h>

#include <optional>
#include <string>

namespace swr::cli {

struct GpuChoice {
  DeviceInfo device;
  /// The profile to predict with; absent when the device is present.
  std::optional<GpuProfile> profile;
  /// Ordinal of the device when it is present.
  int ordinal = 0;

  Provenance provenance() const { return profile ? Provenance::predicted : Provenance::measured; }
};

/// `gpu` is auto, the id of a built-in profile, or the path of a profile.
/// Throws: Error{no_driver} for auto without a GPU; Error{invalid_argument} for an unknown id;
/// Error{unreadable} for a profile file.
GpuChoice choose_gpu(const std::string& gpu);

}  // namespace swr::cli
