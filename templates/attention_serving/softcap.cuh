// SPDX-License-Identifier: MIT
// The softcap of a score.
#pragma once

#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include <swr/serving_axes.h>

namespace swr::serving {

/// tanh(x), by 1 - 2 / (1 + e^(2x)) when it is to be accurate: right to about 2^-22 of 1.
template <Softcap Cap>
__device__ inline float capped(float x) {
  if constexpr (Cap == Softcap::approximate) {
    return ptx::tanh_approx(x);
  } else {
    constexpr float kTwoLog2E = 2.885390081777927F;
    return fmaf(-2.0F, ptx::rcp_approx(1.0F + ptx::ex2_approx(x * kTwoLog2E)), 1.0F);
  }
}

}  // namespace swr::serving
