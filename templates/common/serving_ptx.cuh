// SPDX-License-Identifier: MIT
// PTX instructions that attention over unequal sequences needs beside those of ptx.cuh, each
// wrapped once under its own name. Section names are those of the PTX ISA manual; all exist from
// sm_80 on.
#pragma once

namespace swr::ptx {

/// st.shared.b64 and ld.shared.b64 ("Data Movement and Conversion Instructions").
__device__ inline void st_shared_b64(unsigned shared, long long value) {
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(shared), "l"(value) : "memory");
}
__device__ inline long long ld_shared_b64(unsigned shared) {
  long long value;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(value) : "r"(shared) : "memory");
  return value;
}

/// rcp.approx: largest error one unit in the last place.
__device__ inline float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// clz ("Integer Arithmetic Instructions"): zeros above the highest bit set.
__device__ inline int clz(unsigned x) {
  int zeros;
  asm("clz.b32 %0, %1;" : "=r"(zeros) : "r"(x));
  return zeros;
}

/// vote.sync.ballot: a bit per lane, of 32 lanes.
__device__ inline unsigned vote_ballot(bool holds) {
  return __ballot_sync(0xffffffffU, holds ? 1 : 0);
}

/// shfl.sync.up: the value of the lane so many places below, of 32 lanes; of the lane itself where
/// there is none.
__device__ inline long long shfl_sync_up(long long value, int lanes) {
  return __shfl_up_sync(0xffffffffU, value, static_cast<unsigned>(lanes));
}

}  // namespace swr::ptx
