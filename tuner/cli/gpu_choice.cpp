// SPDX-License-Identifier: MIT
#include "tuner/cli/gpu_choice.h"

#include "core/reject.h"
#include "driver/devices.h"
#include "tuner/cli/options.h"
#include "tuner/distribute/gpu_team.h"
#include <swr/error.h>

#include <algorithm>
#include <numeric>
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

std::string difference_of(const PresentGpu& a, const PresentGpu& b) {
  const auto in_value = [](const char* name, auto left, auto right) {
    return left == right ? ""
                         : std::string(name) + " is " + std::to_string(left) + " and " +
                               std::to_string(right);
  };
  for (const std::string& what :
       {difference(a.device, b.device),
        in_value("sm_clock_khz", a.details.sm_clock_khz, b.details.sm_clock_khz),
        in_value("memory_clock_khz", a.details.memory_clock_khz, b.details.memory_clock_khz),
        in_value("ecc", a.details.ecc, b.details.ecc)}) {
    if (!what.empty()) {
      return what;
    }
  }
  return "";
}

}  // namespace

std::vector<int> parse_gpus(const std::string& gpus, int present) {
  if (gpus == "all") {
    std::vector<int> all(static_cast<std::size_t>(present));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int> numbers;
  for (const std::string& part : split(gpus, ',')) {
    const int number = whole_number(part, "--gpus");
    if (number < 0 || number >= present) {
      reject("--gpus: there is no GPU " + part + "; this machine has " + std::to_string(present) +
             ", counted from 0 (see swr-tune devices)");
    }
    if (std::ranges::find(numbers, number) != numbers.end()) {
      reject("--gpus names GPU " + part + " twice; a GPU measures one variant at a time");
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string visible_alone(const std::optional<std::string>& visible, int number) {
  return visible ? split(*visible, ',').at(static_cast<std::size_t>(number))
                 : std::to_string(number);
}

void require_equal(std::span<const PresentGpu> gpus) {
  for (const PresentGpu& gpu : gpus) {
    const std::string what = difference_of(gpus.front(), gpu);
    if (!what.empty()) {
      throw unequal_gpus(gpus.front().number, gpu.number, what);
    }
  }
}

std::vector<GpuChoice> choose_gpus(const std::string& gpus) {
  const std::vector<DeviceInfo> devices = list_devices();
  std::vector<PresentGpu> present;
  std::vector<GpuChoice> chosen;
  for (const int number : parse_gpus(gpus, static_cast<int>(devices.size()))) {
    const DeviceInfo& device = devices[static_cast<std::size_t>(number)];
    present.push_back({number, device, device_details(number)});
    chosen.push_back({.device = device,
                      .profile = std::nullopt,
                      .ordinal = number,
                      .card = present.back().details.pci_bus_id});
  }
  require_equal(present);
  return chosen;
}

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
