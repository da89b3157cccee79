// SPDX-License-Identifier: MIT
#include "core/shape_distance.h"
#include <swr/device.h>

namespace swr {

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  const auto point = [](const DeviceInfo& device) {
    return DevicePoint{device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s,
                       device.mig};
  };
  return is_same_device(point(a), point(b));
}

}  // namespace swr
