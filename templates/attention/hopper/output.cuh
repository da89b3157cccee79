// SPDX-License-Identifier: MIT
// Writes what a consumer warpgroup computed. O passes through the consumer's rows of its own Q
// slot; a spare warp of the loading warpgroup hands it to the copy engine, which leaves out rows
// and columns past the tensor's end, so that the consumer goes on at once. The log-sum-exp is
// written directly.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/matrix.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include <swr/attention_params.h>

namespace swr::hopper {

/// Named barriers for O, one per consumer and Q slot: the consumer arrives, its storing warp waits.
/// Numbers below are __syncthreads and the turns.
inline constexpr int kFirstOutputBarrier = 4;
__device__ __forceinline__ int output_barrier(int slot, int consumer) {
  return kFirstOutputBarrier + 2 * consumer + slot;
}
template <HopperAttentionConfig C>
inline constexpr int kOutputBarrierThreads = C.kWarpgroup + 32;

/// A thread's place in its consumer warpgroup.
template <HopperAttentionConfig C>
struct ConsumerThread {
  /// First of the warp's 16 rows, counted from the consumer's first.
  __device__ __forceinline__ static int warp_row() {
    return static_cast<int>(threadIdx.x % C.kWarpgroup / 32 * 16);
  }
  /// First of the thread's two rows; the other is 8 below.
  __device__ __forceinline__ static int row() {
    return warp_row() + static_cast<int>(threadIdx.x % 32 / 4);
  }
};

/// The consumer's side: O [64, padded_head_dim], normalised, to shared memory.
template <HopperAttentionConfig C>
__device__ __forceinline__ void hand_over_output(SharedMemory<C> smem, int slot, int consumer,
                                                 const Output<C>& output) {
  unsigned packed[C.padded_head_dim() / 4];
  pack_pairs<C.dtype>(packed, output);
  store_panels<C.panel_columns() * 2>(smem.q(slot, consumer), packed,
                                      ConsumerThread<C>::warp_row());
  ptx::fence_proxy_async();
  ptx::bar_arrive<kOutputBarrierThreads<C>>(output_barrier(slot, consumer));
}

template <HopperAttentionConfig C>
__device__ __forceinline__ void write_lse(const AttentionParams& params, const Scan& scan,
                                          int consumer, const float (&lse)[2]) {
  if (params.lse == nullptr || threadIdx.x % 4 != 0) {
    return;
  }
  const int row = scan.first_row + 64 * consumer + ConsumerThread<C>::row();
  float* target = params.lse + static_cast<long long>(scan.batch_head) * params.seq_q;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half < params.seq_q) {
      target[row + 8 * half] = lse[half];
    }
  }
}

/// Q tiles of tensors of one length, as consumers ask for them.
template <HopperAttentionConfig C>
class TensorQueries {
 public:
  using Scan = hopper::Scan;
  using Params = AttentionParams;
  static constexpr bool kHasWindow = false;
  static constexpr bool kHasCap = false;

  __device__ __forceinline__ explicit TensorQueries(const AttentionParams& params)
      : params_(params), shape_{params.seq_q, params.seq_kv, C.causal} {}

  /// The entry of the work list in a slot.
  __device__ __forceinline__ Scan take(SharedMemory<C> smem, int slot) const {
    return take_scan(smem.scan(slot), smem.q_empty(slot));
  }
  __device__ __forceinline__ SequenceShape shape(int /*slot*/) const { return shape_; }
  __device__ __forceinline__ void write(SharedMemory<C> smem, const Scan& scan, int slot,
                                        int consumer, const Softmax<C>& softmax,
                                        Output<C>& output) const {
    float lse[2];
    softmax.finish(output, lse);
    hand_over_output<C>(smem, slot, consumer, output);
    write_lse<C>(params_, scan, consumer, lse);
  }

 private:
  const AttentionParams& params_;
  SequenceShape shape_;
};

template <HopperAttentionConfig C>
inline constexpr int kQBoxBytes = C.q_box().columns* C.q_box().rows * 2;

/// Where the storing warp brings O of tensors of one length.
template <HopperAttentionConfig C>
struct TensorOutputs {
  const TensorMap& map;

  __device__ __forceinline__ Scan take(SharedMemory<C> smem, int slot) const {
    return take_scan(smem.scan(slot), smem.q_empty(slot));
  }
  __device__ __forceinline__ void store(SharedMemory<C> smem, const Scan& scan, int slot,
                                        int consumer, int panel) const {
    ptx::cp_async_bulk_tensor_4d_shared_to_global(
        map, {panel * C.panel_columns(), scan.first_row + 64 * consumer, scan.head, scan.batch},
        smem.q(slot, consumer) + panel * kQBoxBytes<C>);
  }
};

/// The storing warp of one consumer: all Q tiles of the CTA. `outputs` takes the entry of a slot,
/// and stores a panel of it.
template <HopperAttentionConfig C, typename Outputs>
__device__ __forceinline__ void store_outputs(SharedMemory<C> smem, const Outputs& outputs,
                                              int consumer) {
  ptx::griddepcontrol_wait();
  for (RingPosition<C.q_slots()> slot;; slot.advance()) {
    ptx::mbarrier_wait(smem.q_full(slot.stage), slot.parity);
    const auto scan = outputs.take(smem, slot.stage);
    if (scan.tiles == 0) {
      return;
    }
    ptx::bar_sync<kOutputBarrierThreads<C>>(output_barrier(slot.stage, consumer));
    if (ptx::elect_sync()) {
#pragma unroll
      for (int panel = 0; panel < C.panels(); ++panel) {
        outputs.store(smem, scan, slot.stage, consumer, panel);
      }
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read();
      ptx::mbarrier_arrive(smem.q_empty(slot.stage));
    }
    __syncwarp();
  }
}

}  // namespace swr::hopper
