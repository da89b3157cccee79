// SPDX-License-Identifier: MIT
#include "core/shape_distance.h"
#include <swr/device.h>
#include <swr/error.h>

#include <array>
#include <utility>

namespace swr {

void require_described(const DeviceInfo& device) {
  const std::array<std::pair<const char*, long long>, 8> numbers{{
      {"sm_arch", device.sm_arch},
      {"sm_count", device.sm_count},
      {"l2_bytes", device.l2_bytes},
      {"smem_per_cta_bytes", device.smem_per_cta_bytes},
      {"smem_per_sm_bytes", device.smem_per_sm_bytes},
      {"registers_per_sm", device.registers_per_sm},
      {"max_threads_per_sm", device.max_threads_per_sm},
      {"max_ctas_per_sm", device.max_ctas_per_sm},
  }};
  std::string missing;
  for (const auto& [name, number] : numbers) {
    if (number <= 0) {
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
  }
  if (!missing.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "device " + (device.name.empty() ? std::string("without a name") : device.name) +
                    " lacks " + missing +
                    "; take it from present_device() or profiled_device(), which fill everything");
  }
}

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  const auto point = [](const DeviceInfo& device) {
    return DevicePoint{device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s,
                       device.mig};
  };
  return is_same_device(point(a), point(b));
}

}  // namespace swr
