// SPDX-License-Identifier: MIT
// Additions to global memory, and words that one CTA publishes and others wait for, each wrapped
// once. Section names are those of the PTX ISA manual.
#pragma once

namespace swr::ptx {

/// red.add.f32 ("Parallel Synchronization and Communication Instructions"): adds to global memory
/// and returns nothing. Relaxed.
__device__ inline void red_add_f32(float* target, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
}

/// The same to four neighbours at once (sm_90 and later); each is added by itself. `target` is a
/// multiple of 16 bytes.
__device__ inline void red_add_v4_f32(float* target, float4 value) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

/// Waits until a word of global memory holds `value` ("ld.acquire"): what was written before it was
/// published can then be read.
__device__ inline void ld_acquire_until(const unsigned* word, unsigned value) {
  unsigned held;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(held) : "l"(word) : "memory");
  } while (held != value);
}

/// Publishes a value ("st.release"): who sees it sees what this thread, and those it has met at a
/// barrier, wrote before.
__device__ inline void st_release(unsigned* word, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

}  // namespace swr::ptx
