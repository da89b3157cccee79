// SPDX-License-Identifier: MIT
// The sm_90a instructions of the Hopper families, each wrapped once under PTX's names: clusters,
// named barriers, the tensor copy engine, setmaxnreg and the fences of wgmma. Section names are
// those of the PTX ISA manual.
#pragma once

#include "common/tma_ptx.cuh"
#include <swr/tensor_map.h>

namespace swr::ptx {

/// setmaxnreg ("Miscellaneous Instructions"): every warp of the warpgroup executes it.
template <int Registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// More of mbarriers and the copy engine.

/// mbarrier.test_wait: true when the phase of the given parity has ended; does not wait.
__device__ __forceinline__ bool mbarrier_test_wait(unsigned barrier, unsigned parity) {
  int passed;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.b32 %0, 1, 0, done;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

/// mbarrier.arrive at the barrier of the same offset in CTA `rank` of the cluster. Releases
/// nothing to the cluster: at that scope a release costs hundreds of cycles, and what has been read
/// through the asynchronous proxy needs none.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// barrier.cluster, relaxed: waits for all threads of the cluster. Makes no writes visible.
__device__ __forceinline__ void barrier_cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/// barrier.cluster with release and acquire: what threads of the cluster wrote to shared memory
/// before can be read by all of them after.
__device__ __forceinline__ void barrier_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// mapa: where the shared memory of CTA `rank` of the cluster has this CTA's address `shared`.
__device__ __forceinline__ unsigned mapa(unsigned shared, unsigned rank) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}
__device__ __forceinline__ float4 ld_shared_cluster_v4_f32(unsigned address) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

/// bar.sync: waits until `Threads` threads have synced or arrived at the barrier of this number.
template <int Threads>
__device__ __forceinline__ void bar_sync(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}
template <int Threads>
__device__ __forceinline__ void bar_arrive(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

// cp.async.bulk.tensor ("Data Movement and Conversion Instructions").

/// Corner of a box in a 3-D map, innermost first.
struct MatrixCorner {
  int column;
  int row;
  int item;
};
__device__ __forceinline__ void cp_async_bulk_tensor_3d_global_to_shared(unsigned shared,
                                                                         const TensorMap& map,
                                                                         MatrixCorner corner,
                                                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(corner.column), "r"(corner.row), "r"(corner.item)
      : "memory");
}
/// The box goes to the same offset in every CTA of the cluster whose bit is set, and its bytes are
/// counted by the barrier of the same offset there.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_global_to_shared_multicast(
    unsigned shared, const TensorMap& map, MatrixCorner corner, unsigned barrier,
    unsigned short ctas) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(corner.column), "r"(corner.row), "r"(corner.item), "h"(ctas)
      : "memory");
}

/// One thread copies a box from shared memory, as part of its current bulk group.
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_to_global(const TensorMap& map,
                                                                         BoxCorner corner,
                                                                         unsigned shared) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
          &map),
      "r"(shared), "r"(corner.column), "r"(corner.row), "r"(corner.head), "r"(corner.batch)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_3d_shared_to_global(const TensorMap& map,
                                                                         MatrixCorner corner,
                                                                         unsigned shared) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
      "r"(shared), "r"(corner.column), "r"(corner.row), "r"(corner.item)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_5d_shared_to_global(const TensorMap& map,
                                                                         CutBoxCorner corner,
                                                                         unsigned shared) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
          "l"(&map),
      "r"(shared), "r"(corner.column), "r"(corner.cut), "r"(corner.row), "r"(corner.head),
      "r"(corner.back)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// cp.async.bulk.wait_group.read: waits until all but the last Pending groups of this thread's
/// stores have read shared memory.
template <int Pending = 0>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

/// cp.async.bulk.wait_group: the same until they have been written.
template <int Pending = 0>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

// cp.async.bulk and cp.reduce.async.bulk: contiguous bytes without a tensor map. Addresses and
// sizes are multiples of 16.

/// One thread copies `bytes` to shared memory; `barrier` counts them.
__device__ __forceinline__ void cp_async_bulk_global_to_shared(unsigned shared, const void* global,
                                                               unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}
/// One thread copies `bytes` from shared memory, as part of its current bulk group.
__device__ __forceinline__ void cp_async_bulk_shared_to_global(void* global, unsigned shared,
                                                               unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
}
/// One thread has fp32 values in shared memory added to as many in global memory, each atomically,
/// as part of its current bulk group.
__device__ __forceinline__ void cp_reduce_async_bulk_add_f32(float* global, unsigned shared,
                                                             unsigned bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
      "r"(shared), "r"(bytes)
      : "memory");
}

/// stmatrix ("Warp-level matrix store instruction"): four 8x8 matrices of 16-bit elements; lane l
/// gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(unsigned shared, unsigned a, unsigned b, unsigned c,
                                            unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

/// The same with each matrix transposed.
__device__ __forceinline__ void stmatrix_x4_trans(unsigned shared, unsigned a, unsigned b,
                                                  unsigned c, unsigned d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

/// ld.shared of two floats, which stays where it stands among volatile instructions, and lets
/// others that touch memory pass.
__device__ __forceinline__ float2 ld_shared_v2_f32_in_place(unsigned shared) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(shared));
  return value;
}

// Asynchronous warpgroup products ("Asynchronous Warpgroup Level Matrix Instructions").

/// Orders register and shared-memory accesses before the wgmma.mma_async that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most Pending committed groups are still under way.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Keeps the compiler from moving uses of an accumulator across this point: it does not know that
/// wgmma.mma_async writes registers after its instruction.
template <int Count>
__device__ __forceinline__ void warpgroup_fence_operand(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    asm volatile("" : "+f"(registers[i])::"memory");
  }
}
template <int Count>
__device__ __forceinline__ void warpgroup_fence_operand(unsigned (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    asm volatile("" : "+r"(registers[i])::"memory");
  }
}

}  // namespace swr::ptx
