// SPDX-License-Identifier: MIT
// The PTX instructions the portable family uses, each wrapped once, under PTX's names. Section
// names are those of the PTX ISA manual. Every instruction here exists from sm_80 on, but
// griddepcontrol.
#pragma once

#include <swr/axes.h>

namespace swr::ptx {

/// Address of a shared-memory object in the shared window.
__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// griddepcontrol.wait: waits until the launches before this one have ended and what they wrote can
/// be read; at once in a launch that does not overlap them, and the second time. No thread may
/// touch global memory that others may have written, or write any, before it. Nothing before sm_90,
/// where launches do not overlap.
__device__ inline void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// griddepcontrol.launch_dependents: the launch after this one may start, if it was made to
/// overlap, once every CTA has said so or ended.
__device__ inline void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// prefetch.global.L2 ("Data Movement and Conversion Instructions"): has L2 fetch the cache line of
/// an address. It may come before griddepcontrol_wait(): the writes of all SMs meet in L2, so a
/// read after the wait finds what the launch before wrote, also what it wrote after the prefetch.
/// Nothing before sm_90, where launches do not overlap.
__device__ inline void prefetch_global_l2(const void* global) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#endif
}

/// cp.async ("Data Movement and Conversion Instructions"): copies Bytes from global to shared
/// memory without passing through registers. Only the first `source_bytes` are read; zeros are
/// written for the others. 16-byte copies bypass L1 (cp.async.cg).
template <int Bytes>
__device__ inline void cp_async(unsigned shared, const void* global, int source_bytes) {
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                 "n"(Bytes), "r"(source_bytes)
                 : "memory");
  }
}

/// The same, all bytes or only zeros.
template <int Bytes>
__device__ inline void cp_async_zfill(unsigned shared, const void* global, bool valid) {
  cp_async<Bytes>(shared, global, valid ? Bytes : 0);
}

__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most Pending of this thread's committed groups are still in flight.
template <int Pending>
__device__ inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// atom.acq_rel ("Parallel Synchronization and Communication Instructions"): adds to a word of
/// global memory and returns what was there. Who sees the sum sees what this thread, and those that
/// met it at a barrier, wrote before; this thread, and those it meets afterwards, see what others
/// did before theirs.
__device__ inline unsigned atom_add_acq_rel(unsigned* target, unsigned value) {
  unsigned old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(target), "r"(value)
               : "memory");
  return old;
}

/// The 16 bytes at an address of a multiple of 16, or zeros without touching it. No branch: loads
/// that follow one another are under way together.
__device__ inline uint4 ld_global_v4_b32_if(bool wanted, const void* address) {
  uint4 value;
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.u32 wanted, %5, 0;\n"
      "mov.b32 %0, 0;\n"
      "mov.b32 %1, 0;\n"
      "mov.b32 %2, 0;\n"
      "mov.b32 %3, 0;\n"
      "@wanted ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
      : "l"(address), "r"(static_cast<unsigned>(wanted)));
  return value;
}

__device__ inline void st_shared(unsigned shared, unsigned value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(value) : "memory");
}

__device__ inline void st_shared_b16(unsigned shared, unsigned short value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(shared), "h"(value) : "memory");
}

__device__ inline void st_shared(unsigned shared, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ inline void st_shared(unsigned shared, float2 value) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(value.x), "f"(value.y)
               : "memory");
}

__device__ inline void st_shared(unsigned shared, float4 value) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
}

__device__ inline uint4 ld_shared_v4_b32(unsigned shared) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(shared)
               : "memory");
  return value;
}

__device__ inline float4 ld_shared_v4_f32(unsigned shared) {
  const uint4 bits = ld_shared_v4_b32(shared);
  return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                     __uint_as_float(bits.w));
}
__device__ inline unsigned short ld_shared_b16(unsigned shared) {
  unsigned short value;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(shared) : "memory");
  return value;
}
__device__ inline uint2 ld_shared_v2_b32(unsigned shared) {
  uint2 value;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "r"(shared)
               : "memory");
  return value;
}
__device__ inline unsigned ld_shared_b32(unsigned shared) {
  unsigned value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(shared) : "memory");
  return value;
}

/// ldmatrix ("Warp-level matrix load instruction"): four 8x8 matrices of 16-bit elements; lane l
/// gives the address of row l % 8 of matrix l / 8.
__device__ inline void ldmatrix_x4(unsigned (&fragment)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

/// The same with each matrix transposed.
__device__ inline void ldmatrix_x4_trans(unsigned (&fragment)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

/// mma.sync m16n8k16 ("Matrix multiply-accumulate operation"): c += a * b with fp32 accumulation.
/// Lane l holds c[0..1] at row l / 4, columns 2 * (l % 4) + {0, 1}, and c[2..3] eight rows below.
template <DType Type>
__device__ inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  if constexpr (Type == DType::fp16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The same of the type's depth: m16n8k32 of FP8 (sm_89 and later), whose fragments have the bytes
/// of m16n8k16.
template <DType Type>
__device__ inline void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (Type == DType::e4m3) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (Type == DType::e5m2) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    mma_m16n8k16<Type>(c, a, b0, b1);
  }
}

/// cvt.rn.f16x2 and cvt.rn.bf16x2: rounds two floats to 16-bit elements; `low` goes to the lower
/// half, which comes first in memory.
template <DType Type>
__device__ inline unsigned cvt_rn_x2(float low, float high) {
  unsigned packed;
  if constexpr (Type == DType::fp16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

/// cvt.rn.satfinite.e4m3x2 (sm_89 and later): what is larger than 448 becomes that; `low` goes to
/// the lower byte.
__device__ inline unsigned short cvt_rn_satfinite_e4m3x2(float low, float high) {
  unsigned short packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ inline float cvt_f32_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

/// ex2.approx: 2 to the power x; 2 ulp; exp2(-infinity) is 0.
__device__ inline float ex2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// tanh.approx: tanh within 2^-11.
__device__ inline float tanh_approx(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// max.NaN: the larger value, or NaN when either is.
__device__ inline float max_nan(float a, float b) {
  float result;
  asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// 2 to the power x for x <= 0 without the special-function unit, whose 16 results per clock and SM
/// bound attention with small heads: 2^x = 2^n 2^f with n the nearest integer, the second factor by
/// a polynomial (relative error 1e-4, below half an ulp of fp16). Below -126 it stays at 2^-126.
__device__ inline float exp2_polynomial(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves n in the low bits.
  const float bounded = fmaxf(x, -126.0F);
  const float shifted = __fadd_rn(bounded, kRound);
  const float f = bounded - __fadd_rn(shifted, -kRound);
  float power = fmaf(f, 0.0549971F, 0.2422143F);
  power = fmaf(power, f, 0.6932844F);
  power = fmaf(power, f, 1.0F);
  return __int_as_float(__float_as_int(power) + (__float_as_int(shifted) << 23));
}

/// The same value, of whose origin the compiler knows nothing: what follows from it is computed
/// again instead of kept in registers from one round of a loop to the next.
__device__ inline int opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// redux.sync.or ("Parallel Synchronization and Communication Instructions"). A value that all
/// lanes hold alike stays what it is, in a register of the warp instead of one of each thread.
__device__ inline int redux_sync_or(int value) {
  int result;
  asm("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

}  // namespace swr::ptx
