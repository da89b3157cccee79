// SPDX-License-Identifier: MIT
#include "report/explain/describe.h"

#include "core/number_text.h"
#include "core/operation.h"

namespace swr {

std::string tile_text(const Variant& variant) { return variant.operation().tile_text(variant); }

std::string describe(const Variant& variant) { return variant.operation().description(variant); }

std::string describe(const DeviceInfo& device) {
  return device.name + " (sm_" + std::to_string(device.sm_arch) + ", " +
         std::to_string(device.sm_count) + " SMs, " + bytes_text(device.l2_bytes) + " L2" +
         (device.mig ? ", MIG slice)" : ")");
}

}  // namespace swr
