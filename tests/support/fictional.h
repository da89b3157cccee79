// SPDX-License-Identifier: MIT
// GPUs that do not exist, for tests that need the limits of some GPU.
#pragma once

#include <swr/device.h>

namespace swr::test {

/// Eight SMs with the per-SM limits of sm_90.
inline DeviceInfo fictional_hopper() {
  return {.name = "GTX Fictional",
          .sm_arch = 90,
          .sm_count = 8,
          .l2_bytes = 1 << 20,
          .dram_gb_per_s = 100.0,
          .smem_per_cta_bytes = 232448,
          .smem_per_sm_bytes = 233472,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

/// Every limit is that of a common GPU, the name and the counts are of none.
inline DeviceInfo fictional_device() {
  return {.name = "Fictional One",
          .sm_arch = 80,
          .sm_count = 10,
          .l2_bytes = 1 << 20,
          .dram_gb_per_s = 100.0,
          .mig = false,
          .smem_per_cta_bytes = 101376,
          .smem_per_sm_bytes = 102400,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 1536,
          .max_ctas_per_sm = 16};
}

}  // namespace swr::test
