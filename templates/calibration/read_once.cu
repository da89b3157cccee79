// SPDX-License-Identifier: MIT
// Reads memory once and does nothing else: what is left of a kernel that streams K and V when its
// products, its shared-memory traffic and its combination cost nothing. From sm_90 on.
#include "common/ptx.cuh"
#include "common/tma_ptx.cuh"

namespace swr::calibration {

/// cp.async.bulk ("Data Movement and Conversion Instructions"): one thread copies to shared memory.
__device__ inline void copy_bulk(unsigned shared, const char* global, unsigned bytes,
                                 unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace swr::calibration

/// The CTAs together read `chunks` chunks, each CTA every gridDim.x-th, through a ring of `slots`
/// of them in shared memory, behind which an mbarrier each lies. One warp. `result` gets a word of
/// each CTA.
extern "C" __global__ void swr_read_once(const char* data, int chunks, int chunk_bytes, int slots,
                                         int lets_next_start_early, unsigned* result) {
  using namespace swr;
  extern __shared__ __align__(128) unsigned char memory[];
  if (threadIdx.x != 0) {
    return;
  }
  const auto ring = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  const unsigned barriers = ring + static_cast<unsigned>(slots * chunk_bytes);
  for (int slot = 0; slot < slots; ++slot) {
    ptx::mbarrier_init(barriers + 8 * slot, 1);
  }
  ptx::fence_mbarrier_init();
  if (lets_next_start_early != 0) {
    ptx::griddepcontrol_launch_dependents();
  }
  ptx::griddepcontrol_wait();
  const int step = static_cast<int>(gridDim.x);
  const auto ask = [&](int chunk, int slot) {
    ptx::mbarrier_arrive_expect_tx(barriers + 8 * slot, chunk_bytes);
    calibration::copy_bulk(ring + slot * chunk_bytes,
                           data + static_cast<long long>(chunk) * chunk_bytes, chunk_bytes,
                           barriers + 8 * slot);
  };
  int asked = static_cast<int>(blockIdx.x);
  for (int slot = 0; slot < slots && asked < chunks; ++slot, asked += step) {
    ask(asked, slot);
  }
  unsigned parity = 0;
  int slot = 0;
  for (int chunk = static_cast<int>(blockIdx.x); chunk < chunks; chunk += step) {
    ptx::mbarrier_wait(barriers + 8 * slot, parity);
    if (asked < chunks) {
      ask(asked, slot);
      asked += step;
    }
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
  ptx::griddepcontrol_launch_dependents();
  result[blockIdx.x] = *reinterpret_cast<volatile unsigned*>(memory);
}
