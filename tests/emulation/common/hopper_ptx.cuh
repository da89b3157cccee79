// SPDX-License-Identifier: MIT
// The instructions of templates/common/hopper_ptx.cuh that loading warps and the softmax use, on
// the CPU.
#pragma once

#include "common/tma_ptx.cuh"

namespace swr::ptx {

inline bool mbarrier_test_wait(unsigned barrier, unsigned parity) {
  return emulation::transaction_barrier(barrier).has_passed(parity);
}

/// Named by code that does not run here.
inline void stmatrix_x4(unsigned, unsigned, unsigned, unsigned, unsigned) {
  emulation::fail("stmatrix is not emulated");
}
inline float exp2_polynomial(float x) { return std::exp2(x); }

}  // namespace swr::ptx
