// SPDX-License-Identifier: MIT
// mbarriers and the loads of the tensor copy engine (TMA), each wrapped once under PTX's names.
// Every instruction here exists from sm_90 on, on sm_120 and sm_121 too. Section names are those of
// the PTX ISA manual.
#pragma once

#include <swr/tensor_map.h>

namespace swr::ptx {

/// True in one lane of a converged warp ("elect.sync").
__device__ __forceinline__ bool elect_sync() {
  int elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}

// mbarrier ("Parallel Synchronization and Communication Instructions"). `barrier` is the shared
// address of 8 bytes.

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// fence.mbarrier_init: makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// mbarrier.arrive.expect_tx: arrives, and lets the phase end only after `bytes` more have been
/// copied.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Waits for the end of the phase of the given parity: mbarrier.try_wait until it succeeds.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finish;\n"
      "bra again;\n"
      "finish:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// fence.proxy.async: orders this thread's writes to shared memory before later accesses by the
/// copy engine or wgmma.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// The same of global memory: what this thread has seen there comes before what it has the copy
/// engine do later.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// cp.async.bulk.tensor ("Data Movement and Conversion Instructions").

/// Fetches a map before the first copy asks for it.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Corner of a box in a 4-D map, innermost first.
struct BoxCorner {
  int column;
  int row;
  int head;
  int batch;
};

/// One thread copies a box to shared memory; `barrier` counts its bytes.
__device__ __forceinline__ void cp_async_bulk_tensor_4d_global_to_shared(unsigned shared,
                                                                         const TensorMap& map,
                                                                         BoxCorner corner,
                                                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(corner.column), "r"(corner.row), "r"(corner.head),
      "r"(corner.batch)
      : "memory");
}

/// Corner of a box in a 5-D map whose second dimension ends where rows are cut off, whose third
/// counts rows, and whose last makes up for the second.
struct CutBoxCorner {
  int column;
  int cut;
  int row;
  int head;
  int back;
};
__device__ __forceinline__ void cp_async_bulk_tensor_5d_global_to_shared(unsigned shared,
                                                                         const TensorMap& map,
                                                                         CutBoxCorner corner,
                                                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(corner.column), "r"(corner.cut), "r"(corner.row),
      "r"(corner.head), "r"(corner.back)
      : "memory");
}

/// The same with a box that begins where the first four dimensions do and stands at `place` in the
/// fifth.
__device__ __forceinline__ void cp_async_bulk_tensor_5d_global_to_shared(unsigned shared,
                                                                         const TensorMap& map,
                                                                         int place,
                                                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %3, %3, %3, %4}], [%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(0), "r"(place)
      : "memory");
}

}  // namespace swr::ptx
