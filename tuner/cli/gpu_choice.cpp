// SPDX-License-Identifier: MIT
#include "tuner/cli/gpu_choice.h"

#include "tuner/driver/devices.h"
#include <swr/error.h>

#include <utility>
#include <vector>

namespace swr::cli {
namespace {

GpuChoice first_device() {
  GpuChoice choice;
  choice.device = list_devices().at(0);
  return choice;
}

/// Without a driver nothing is present, which is no failure for a GPU that was named.
std::vector<DeviceInfo> devices_present() {
  try {
    return list_devices();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_driver) {
      throw;
    }
    return {};
  }
}

GpuProfile profile_named(const std::string& gpu) {
  try {
    return load_profile(gpu);
  } catch (const Error& error) {
    // A wrong name is a wrong value of --gpu.
    throw Error(error.code() == ErrorCode::not_found ? ErrorCode::invalid_argument : error.code(),
                error.what());
  }
}

}  // namespace

GpuChoice choose_gpu(const std::string& gpu) {
  if (gpu == "auto") {
    return first_device();
  }
  GpuProfile profile = profile_named(gpu);
  const std::vector<DeviceInfo> present = devices_present();
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (same_device(present[i], profile.device)) {
      return {.device = present[i], .profile = std::nullopt, .ordinal = static_cast<int>(i)};
    }
  }
  GpuChoice choice;
  choice.device = profile.device;
  choice.profile = std::move(profile);
  return choice;
}

}  // namespace swr::cli
