// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_80 to sm_121: a Q tile stays resident while K and V tiles stream
// through a ring in shared memory. Split-Q: each warp owns whole rows, so warps never reduce
// across each other (Sawtooth Wavefront Reordering, Algorithms 1 to 4).
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include "common/schedule.h"
#include <swr/attention_params.h>

namespace swr::portable {

/// The rows of one head of a tensor.
__device__ inline GlobalRows head_rows(const void* tensor, const TensorStrides& strides, int batch,
                                       int head, int rows) {
  constexpr int kElementBytes = 2;
  const long long offset = batch * strides.batch + head * strides.head;
  return {const_cast<char*>(static_cast<const char*>(tensor)) + offset * kElementBytes,
          strides.seq * kElementBytes, rows};
}

/// The K and V tiles of one scan, in scan order, through a ring of C.stages tiles each.
template <AttentionConfig C>
class KvStream {
 public:
  __device__ KvStream(unsigned ring, GlobalRows keys, GlobalRows values, int tiles, bool backward)
      : ring_(ring), keys_(keys), values_(values), tiles_(tiles), backward_(backward) {}

  __device__ int tile(int step) const { return kv_tile_at(step, tiles_, backward_); }

  __device__ unsigned k_slot(int step) const {
    return ring_ + static_cast<unsigned>(step % C.stages * C.kv_tile_bytes());
  }
  __device__ unsigned v_slot(int step) const {
    return k_slot(step) + static_cast<unsigned>(C.stages * C.kv_tile_bytes());
  }

  /// Starts the copy of a step's K or V tile as a group of its own; past the end the group is
  /// empty, which keeps the count of groups in flight the same for every step.
  __device__ void request_k(int step) const {
    if (step < tiles_) {
      copy_tile_in<C, C.tile_n>(k_slot(step), keys_, tile(step) * C.tile_n);
    }
    ptx::commit_copies();
  }
  __device__ void request_v(int step) const {
    if (step < tiles_) {
      copy_tile_in<C, C.tile_n>(v_slot(step), values_, tile(step) * C.tile_n);
    }
    ptx::commit_copies();
  }

  /// Fills the ring: K of every stage, V of all but the last.
  __device__ void fill() const {
#pragma unroll
    for (int stage = 0; stage < C.stages; ++stage) {
      request_k(stage);
      if (stage < C.stages - 1) {
        request_v(stage);
      }
    }
  }

  /// Waits for the oldest group in flight and makes it visible to the CTA. Also: every warp has
  /// finished what it read before.
  __device__ static void arrive() {
    ptx::wait_copies<2 * C.stages - 2>();
    __syncthreads();
  }

 private:
  unsigned ring_;
  GlobalRows keys_;
  GlobalRows values_;
  int tiles_;
  bool backward_;
};

/// Normalises, writes O through the warp's own rows of the Q tile, and the log-sum-exp.
template <AttentionConfig C>
__device__ inline void write_output(const Output<C>& output, const SoftmaxState<C>& softmax,
                                    unsigned q_tile, const GlobalRows& target, float* lse,
                                    int first_row, int warp_row, float scale_log2) {
  constexpr float kLn2 = 0.693147180559945F;
  const int lane = static_cast<int>(threadIdx.x % 32);
  __syncwarp();
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(softmax.sum[m][half]);
      const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
#pragma unroll
      for (int d = 0; d < C.head_dim / 8; ++d) {
        ptx::store_shared(q_tile + tile_offset<C>(row, d) + lane % 4 * 4,
                          ptx::pack<C.dtype>(output[m][d][2 * half] * inverse,
                                             output[m][d][2 * half + 1] * inverse));
      }
      if (lse != nullptr && lane % 4 == 0 && first_row + row < target.rows) {
        lse[first_row + row] = sum > 0.0F
                                   ? (softmax.maximum[m][half] * scale_log2 + log2f(sum)) * kLn2
                                   : minus_infinity();
      }
    }
  }
  __syncwarp();
  copy_rows_out<C, 16 * C.m_blocks()>(q_tile, target, first_row, warp_row);
}

/// Computes one Q tile. `smem` holds the Q tile, then the K ring, then the V ring.
template <AttentionConfig C>
__device__ inline void attend(const AttentionParams& params, unsigned smem, QTile work,
                              bool backward) {
  const SequenceShape shape{params.seq_q, params.seq_kv, C.causal};
  const int batch = work.head / params.heads_q;
  const int head = work.head % params.heads_q;
  const int kv_head = head / (params.heads_q / params.heads_kv);
  const int first_row = work.index * C.tile_m;
  const int warp_row = static_cast<int>(threadIdx.x / 32) * (16 * C.m_blocks());
  const int steps = kv_tile_count(work.index, C.tile_m, C.tile_n, shape);
  const KvStream<C> stream(
      smem + C.q_tile_bytes(), head_rows(params.k, params.k_strides, batch, kv_head, params.seq_kv),
      head_rows(params.v, params.v_strides, batch, kv_head, params.seq_kv), steps, backward);

  __syncthreads();  // The previous Q tile's readers are done with shared memory.
  copy_tile_in<C, C.tile_m>(smem, head_rows(params.q, params.q_strides, batch, head, params.seq_q),
                            first_row);
  stream.fill();
  stream.arrive();
  QueryFragments<C> query(smem, warp_row);
  query.load();

  Output<C> output = {};
  SoftmaxState<C> softmax;
  for (int step = 0; step < steps; ++step) {
    stream.arrive();  // K of this step; V of the step before is read.
    stream.request_v(step + C.stages - 1);
    Scores<C> scores;
    multiply_q_k<C>(scores, query, stream.k_slot(step));
    const int tile = stream.tile(step);
    if (needs_mask(work.index, tile, C.tile_m, C.tile_n, shape)) {
      mask_scores<C>(scores, first_row + warp_row, tile * C.tile_n, shape);
    }
    stream.arrive();  // V of this step; K of this step is read.
    stream.request_k(step + C.stages);
    softmax.update(scores, output, params.scale_log2);
    multiply_p_v<C>(output, scores, stream.v_slot(step));
  }
  ptx::wait_copies<0>();
  float* lse = params.lse == nullptr
                   ? nullptr
                   : params.lse + static_cast<long long>(work.head) * params.seq_q;
  write_output<C>(output, softmax, smem,
                  head_rows(params.o, params.o_strides, batch, head, params.seq_q), lse, first_row,
                  warp_row, params.scale_log2);
}

/// All Q tiles of this CTA.
template <AttentionConfig C>
__device__ inline void run(const AttentionParams& params, unsigned smem) {
  const int q_tiles = ceil_div(params.seq_q, C.tile_m);
  const int heads = params.batch * params.heads_q;
  const long long tiles = static_cast<long long>(q_tiles) * heads;
  for (int iteration = 0;; ++iteration) {
    const long long linear = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, tiles);
    if (linear < 0) {
      return;
    }
    attend<C>(params, smem, map_tile(linear, q_tiles, heads, params.section_heads),
              scans_backward(C.order, iteration));
  }
}

}  // namespace swr::portable
