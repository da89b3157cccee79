// SPDX-License-Identifier: MIT
// The instructions of templates/common/reduce_ptx.cuh, on the CPU.
#pragma once

#include "tests/emulation/simt.h"

#include <cstdint>

inline float __ldcg(const float* source) { return *source; }

namespace swr::ptx {

inline void red_add_f32(float* target, float value) { *target += value; }

inline void red_add_v4_f32(float* target, float4 value) {
  if (reinterpret_cast<std::uintptr_t>(target) % 16 != 0) {
    emulation::fail("a misaligned addition of four values");
  }
  target[0] += value.x;
  target[1] += value.y;
  target[2] += value.z;
  target[3] += value.w;
}

inline void ld_acquire_until(const unsigned* word, unsigned value) {
  emulation::wait_for_word(word, value);
}
inline void st_release(unsigned* word, unsigned value) { *word = value; }

}  // namespace swr::ptx
