// SPDX-License-Identifier: MIT
#include <swr/device.h>

#include <algorithm>
#include <cmath>

namespace swr {

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  constexpr double kBandwidthTolerance = 0.02;
  const double larger = std::max(a.dram_gb_per_s, b.dram_gb_per_s);
  return a.sm_arch == b.sm_arch && a.sm_count == b.sm_count && a.l2_bytes == b.l2_bytes &&
         a.mig == b.mig &&
         std::abs(a.dram_gb_per_s - b.dram_gb_per_s) <= kBandwidthTolerance * larger;
}

}  // namespace swr
