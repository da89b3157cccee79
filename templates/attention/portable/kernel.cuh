// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_80 to sm_121: a Q tile stays resident while K and V tiles stream
// through a ring in shared memory. Split-Q: each warp owns whole rows, so warps never reduce
// across each other (Sawtooth Wavefront Reordering, Algorithms 1 to 4).
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/split_kv.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"
#include "common/schedule.h"
#include <swr/attention_params.h>

namespace swr::portable {

/// Rows of K and V of the head that a Q tile belongs to, and which Q tile it is: in registers, or
/// parked in shared memory when C.parks_work().
template <AttentionConfig C>
class Work {
 public:
  /// Every thread of the CTA calls it with the same values, and passes a barrier before the others.
  __device__ Work(const AttentionParams& params, unsigned smem, QTile tile)
      : params_(params), parked_(smem + C.parked_offset()), tile_(tile) {
    const int kv_head = ptx::uniform(kv_head_of<C>(params, tile.head));
    const int batch = ptx::uniform(tile.head / scheduled_heads<C>(params));
    keys_ = head_rows(params.k, params.k_strides, batch, kv_head, params.seq_kv).base;
    values_ = head_rows(params.v, params.v_strides, batch, kv_head, params.seq_kv).base;
    if (C.parks_work() && threadIdx.x == 0) {
      ptx::store_shared(parked_, halves(keys_, values_));
      ptx::store_shared(parked_ + 16, make_uint4(static_cast<unsigned>(tile.head),
                                                 static_cast<unsigned>(tile.index), 0, 0));
    }
  }

  __device__ QTile tile() const {
    if constexpr (C.parks_work()) {
      const uint4 parked = ptx::load_shared(parked_ + 16);
      return {static_cast<int>(parked.x), static_cast<int>(parked.y)};
    } else {
      return tile_;
    }
  }
  __device__ GlobalRows keys() const {
    const uint4 parked = bases();
    return {pointer(parked.x, parked.y), params_.k_strides.seq * 2, params_.seq_kv};
  }
  __device__ GlobalRows values() const {
    const uint4 parked = bases();
    return {pointer(parked.z, parked.w), params_.v_strides.seq * 2, params_.seq_kv};
  }

 private:
  __device__ uint4 bases() const {
    if constexpr (C.parks_work()) {
      return ptx::load_shared(parked_);
    } else {
      return halves(keys_, values_);
    }
  }
  __device__ static uint4 halves(const char* first, const char* second) {
    const auto a = reinterpret_cast<unsigned long long>(first);
    const auto b = reinterpret_cast<unsigned long long>(second);
    return make_uint4(static_cast<unsigned>(a), static_cast<unsigned>(a >> 32),
                      static_cast<unsigned>(b), static_cast<unsigned>(b >> 32));
  }
  __device__ static char* pointer(unsigned low, unsigned high) {
    return reinterpret_cast<char*>(static_cast<unsigned long long>(high) << 32 | low);
  }

  const AttentionParams& params_;
  unsigned parked_;
  QTile tile_;
  char* keys_;
  char* values_;
};

/// The K and V tiles of one scan, in scan order, through a ring of C.stages tiles each.
///
/// With one stage, K of the next step is copied while V of this one is multiplied, and V while K
/// is: two barriers a step. With more, K and V of a step arrive together, C.stages - 1 steps ahead:
/// one barrier.
template <AttentionConfig C>
class KvStream {
 public:
  __device__ KvStream(unsigned ring, const Work<C>& work, KvTiles tiles, bool backward, int thread)
      : ring_(ring),
        work_(work),
        first_(tiles.first),
        tiles_(tiles.count),
        backward_(backward),
        thread_(thread) {}

  __device__ bool backward() const { return backward_; }
  __device__ int tile(int step) const { return first_ + place(step); }
  /// The tile's place among those of the scan.
  __device__ int place(int step) const { return kv_tile_at(step, tiles_, backward_); }

  __device__ unsigned k_slot(int step) const {
    return ring_ + static_cast<unsigned>(step) % C.stages * C.kv_tile_bytes();
  }
  __device__ unsigned v_slot(int step) const {
    return k_slot(step) + static_cast<unsigned>(C.stages * C.kv_tile_bytes());
  }

  /// Starts the first copies; those that the CTA has begun belong to the first group.
  __device__ void fill() const {
    if constexpr (C.stages == 1) {
      request_k(0);
      ptx::commit_copies();
    } else {
#pragma unroll
      for (int step = 0; step < C.stages - 1; ++step) {
        request_both(step);
      }
    }
  }

  /// Waits for the oldest group in flight and makes it visible to the CTA. Also: every warp has
  /// finished what it read before.
  __device__ static void arrive() {
    ptx::wait_copies<C.stages == 1 ? 0 : C.stages - 2>();
    __syncthreads();
  }

  /// Before a step's K is read.
  __device__ void begin(int step) const {
    arrive();
    if constexpr (C.stages == 1) {
      request_v(step);
      ptx::commit_copies();
    } else {
      request_both(step + C.stages - 1);
    }
  }

  /// Between the reads of a step's K and of its V.
  __device__ void turn(int step) const {
    if constexpr (C.stages == 1) {
      arrive();
      request_k(step + 1);
      ptx::commit_copies();
    }
  }

  /// What a warp without rows does for the others.
  __device__ void copy_only() const {
#pragma unroll 1
    for (int step = 0; step < tiles_; ++step) {
      begin(step);
      turn(step);
    }
  }

 private:
  __device__ void request_k(int step) const {
    if (step < tiles_) {
      copy_tile_in<C, C.tile_n>(k_slot(step), work_.keys(), tile(step) * C.tile_n, thread_);
    }
  }
  __device__ void request_v(int step) const {
    if (step < tiles_) {
      copy_tile_in<C, C.tile_n>(v_slot(step), work_.values(), tile(step) * C.tile_n, thread_);
    }
  }
  /// As one group; past the end it is empty, which keeps the number of groups in flight the same
  /// for every step.
  __device__ void request_both(int step) const {
    request_k(step);
    request_v(step);
    ptx::commit_copies();
  }

  unsigned ring_;
  const Work<C>& work_;
  int first_;
  int tiles_;
  bool backward_;
  int thread_;
};

/// The rows of one warp of a Q tile, over the scan of K and V.
template <AttentionConfig C>
class WarpRows {
 public:
  /// `first_row` is the global index of the first of them, `warp_row` that in the Q tile.
  __device__ WarpRows(const KvStream<C>& stream, unsigned q_tile, int first_row, int warp_row,
                      int lane, SequenceShape shape, float scale_log2)
      : stream_(stream),
        query_(q_tile, warp_row, lane),
        first_row_(first_row),
        shape_(shape),
        scale_log2_(scale_log2) {
    query_.load();
  }

  /// One K/V tile, which needs a mask or does not.
  template <bool Masked>
  __device__ void take(int step) {
    stream_.begin(step);
    Scores<C> scores;
    multiply_q_k<C>(scores, query_, stream_.k_slot(step));
    if constexpr (Masked) {
      mask_scores<C>(scores, first_row_, stream_.tile(step) * C.tile_n, shape_);
    }
    stream_.turn(step);
    softmax_.raise(scores, output_, scale_log2_);
    const auto numerators = [&](Numerators<C>& p, int keys) {
      softmax_.exponentiate(p, scores, keys, scale_log2_);
    };
    multiply_p_v<C>(output_, numerators, stream_.v_slot(step));
  }

  /// Steps [first, last), which all need a mask or all do not.
  template <bool Masked>
  __device__ void scan(int first, int last) {
#pragma unroll 1
    for (int step = first; step < last; ++step) {
      take<Masked>(step);
    }
  }

  __device__ const Output<C>& output() const { return output_; }
  __device__ const SoftmaxState<C>& softmax() const { return softmax_; }

 private:
  const KvStream<C>& stream_;
  QueryFragments<C> query_;
  int first_row_;
  SequenceShape shape_;
  float scale_log2_;
  Output<C> output_ = {};
  SoftmaxState<C> softmax_;
};

/// Normalises, writes O through the warp's own rows of the Q tile at `q_tile`, and the log-sum-exp.
template <AttentionConfig C>
__device__ inline void write_output(const WarpRows<C>& rows, const AttentionParams& params,
                                    unsigned q_tile, QTile tile, int warp_row) {
  const int lane = ptx::anew(static_cast<int>(threadIdx.x % 32));
  const int first_row = tile.index * C.tile_m;
  const LogSumExps<C> lse(params, tile.head);
  __syncwarp();
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(rows.softmax().sum[m][half]);
      const float inverse = inverse_sum(sum);
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
#pragma unroll
      for (int d = 0; d < C.head_dim / 8; ++d) {
        const auto& sums = rows.output()[m][d];
        ptx::store_shared(
            q_tile + tile_offset<C>(row, d) + lane % 4 * 4,
            ptx::pack<C.dtype>(sums[2 * half] * inverse, sums[2 * half + 1] * inverse));
      }
      if (lse.are_wanted() && lane % 4 == 0 && first_row + row < lse.rows()) {
        lse.write(first_row + row, log_sum_exp(rows.softmax().shift[m][half], sum));
      }
    }
  }
  __syncwarp();
  copy_rows_out<C, 16 * C.m_blocks()>(q_tile,
                                      query_rows<C>(params.o, params.o_strides, params, tile.head),
                                      first_row, warp_row, lane);
}

/// Tiles from place `unmasked` on need a mask: the last steps of a scan, or the first of a backward
/// one.
template <AttentionConfig C>
__device__ inline void scan_all(WarpRows<C>& rows, const KvStream<C>& stream, int steps,
                                int unmasked) {
  const int masked = steps - unmasked;
  if constexpr (C.order == Order::cyclic) {
    rows.template scan<false>(0, unmasked);
    rows.template scan<true>(unmasked, steps);
  } else if constexpr (C.order == Order::right_to_left) {
    rows.template scan<true>(0, masked);
    rows.template scan<false>(masked, steps);
  } else {
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {  // Each body once in the code, whatever comes first.
      if (stream.backward() == (part == 0)) {
        rows.template scan<true>(part * unmasked, part * unmasked + masked);
      } else {
        rows.template scan<false>(part * masked, part * masked + unmasked);
      }
    }
  }
}

/// Computes one Q tile, or one split of it. `smem` holds the Q tile, the K ring, the V ring and
/// what is parked.
template <AttentionConfig C>
__device__ inline void attend(const AttentionParams& params, unsigned smem, QTile tile, int split,
                              bool backward) {
  const SequenceShape shape = sequence_shape<C>(params);
  const int thread = ptx::anew(static_cast<int>(threadIdx.x));
  const int warp_row = thread / 32 * (16 * C.m_blocks());
  KvTiles scanned{0, kv_tile_count(tile.index, C.tile_m, C.tile_n, shape)};
  int unmasked = unmasked_kv_tile_count(tile.index, C.tile_m, C.tile_n, shape);
  if constexpr (C.split_kv) {
    scanned = kv_part(scanned.count, split, params.kv_splits);
    unmasked = max_of(0, unmasked - scanned.first);
  }
  unmasked = min_of(scanned.count, unmasked);

  __syncthreads();  // The previous Q tile's readers are done with shared memory.
  const Work<C> work(params, smem, tile);
  if constexpr (C.parks_work()) {
    __syncthreads();
  }
  copy_tile_in<C, C.tile_m>(smem, query_rows<C>(params.q, params.q_strides, params, tile.head),
                            tile.index * C.tile_m, thread);
  const KvStream<C> stream(smem + C.q_tile_bytes(), work, scanned, backward, thread);
  stream.fill();
  stream.arrive();
  WarpRows<C> rows(stream, smem, tile.index * C.tile_m + warp_row, warp_row, thread % 32, shape,
                   params.scale_log2);
  if (C.has_idle_warps() && tile.index * C.tile_m + warp_row >= shape.q_rows()) {
    stream.copy_only();
  } else {
    scan_all<C>(rows, stream, scanned.count, unmasked);
  }
  ptx::wait_copies<0>();
  if constexpr (C.split_kv) {
    SplitResults<C>(params, smem + C.q_tile_bytes(), work.tile())
        .leave_and_combine(rows.output(), rows.softmax(), split, warp_row);
  } else {
    write_output<C>(rows, params, smem, work.tile(), warp_row);
  }
}

/// All Q tiles, or splits of them, of this CTA.
template <AttentionConfig C>
__device__ inline void run(const AttentionParams& params, unsigned smem) {
  for (int iteration = 0;; ++iteration) {
    const WorkItems items = work_items<C>(params);
    const long long item = cta_tile(C.persistence, blockIdx.x, gridDim.x, iteration, items.count());
    if (item < 0) {
      return;
    }
    const int split = C.split_kv ? static_cast<int>(item % items.splits) : 0;
    const QTile tile = longest_first(
        map_tile(item / items.splits, items.q_tiles, items.heads, params.section_heads),
        items.q_tiles, C.causal && params.longest_first != 0);
    attend<C>(params, smem, {ptx::uniform(tile.head), ptx::uniform(tile.index)}, split,
              scans_backward(C.order, iteration));
  }
}

}  // namespace swr::portable
