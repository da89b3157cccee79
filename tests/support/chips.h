// SPDX-License-Identifier: MIT
// Chips to compile for without having one, and which variants they drop.
#pragma once

#include <swr/constraints.h>
#include <swr/device.h>

#include <string>

namespace swr {

/// Limits of the chips of an architecture: CUDA C++ Programming Guide, table of technical
/// specifications per compute capability.
inline DeviceInfo device_of(int sm_arch) {
  const bool data_center = sm_arch == 80 || sm_arch == 90 || sm_arch == 100;
  const int smem_per_sm_kib = sm_arch == 80 ? 164 : data_center ? 228 : 100;
  return {.name = "sm_" + std::to_string(sm_arch),
          .sm_arch = sm_arch,
          .sm_count = 48,
          .l2_bytes = 24LL << 20,
          .dram_gb_per_s = 273.0,
          .smem_per_cta_bytes = (smem_per_sm_kib - 1) * 1024,
          .smem_per_sm_bytes = smem_per_sm_kib * 1024,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = data_center ? 2048 : 1536,
          .max_ctas_per_sm = data_center ? 32 : 24};
}

/// The constraint that drops a variant on a chip; empty where none does.
inline std::string dropped_by(const Problem& problem, const Variant& variant, int sm_arch) {
  const auto broken = check_constraints(problem, variant, device_of(sm_arch));
  return broken ? broken->constraint : "";
}

}  // namespace swr
