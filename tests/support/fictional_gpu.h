// SPDX-License-Identifier: MIT
// The GPU that stored results of tests and of fuzzing are of. It does not exist.
#pragma once

#include <swr/device.h>

namespace swr {

inline DeviceInfo fictional_gpu() {
  return {.name = "Fictional F1",
          .sm_arch = 90,
          .sm_count = 96,
          .l2_bytes = 40LL << 20,
          .dram_gb_per_s = 2000.0,
          .mig = false,
          .smem_per_cta_bytes = 100 * 1024,
          .smem_per_sm_bytes = 128 * 1024,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

}  // namespace swr
