// SPDX-License-Identifier: MIT
// The instructions of templates/common/hopper_ptx.cuh that loading warps use, on the CPU.
#pragma once

#include "common/tma_ptx.cuh"

namespace swr::ptx {

inline bool mbarrier_test_wait(unsigned barrier, unsigned parity) {
  return emulation::transaction_barrier(barrier).has_passed(parity);
}

}  // namespace swr::ptx
