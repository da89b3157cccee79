// SPDX-License-Identifier: MIT
// FlashAttention forward for sm_80 to sm_121: a Q tile stays resident while K and V tiles stream
// through a ring in shared memory. Split-Q: each warp owns whole rows, so warps never reduce
// across each other (Sawtooth Wavefront Reordering, Algorithms 1 to 4); only where a Q tile has
// fewer rows than that takes do warps divide keys as well (key_groups.cuh).
#pragma once

#include "attention/config.h"
#include "attention/portable/key_groups.cuh"
#include "attention/portable/kv_stream.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/split_kv.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention/portable/work.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_params.h>

namespace swr::portable {

/// The rows of one warp of a Q tile, over the scan of K and V. Warps without rows compute nothing,
/// but take every step: they copy too, and a barrier of the CTA is one instruction that all of its
/// threads come to, so that none may stand on a path that only some warps take.
template <PortableAttentionConfig C>
class WarpRows {
 public:
  /// `tile_row` is the global index of the Q tile's first row.
  __device__ WarpRows(const KvStream<C>& stream, unsigned q_tile, int tile_row, WarpPlace place,
                      int lane, SequenceShape shape, float scale_log2)
      : stream_(stream),
        query_(q_tile, place.row, lane),
        first_row_(tile_row + place.row),
        first_key_(place.key),
        shape_(shape),
        scale_log2_(scale_log2) {
    query_.load();
    if constexpr (C.has_idle_warps()) {
      is_idle_ = ptx::redux_sync_or(first_row_ >= shape.q_rows() ? 1 : 0);
    }
  }

  /// One K/V tile, which needs a mask or does not.
  template <bool Masked>
  __device__ void take(int step) {
    stream_.begin(step);
    Scores<C> scores;
    if (!is_idle()) {
      multiply_q_k<C>(scores, query_, stream_.k_slot(step), first_key());
      if constexpr (Masked) {
        mask_scores<C>(scores, first_row_, stream_.tile(step) * C.tile_n + first_key(), shape_);
      }
    }
    stream_.turn(step);
    if (!is_idle()) {
      softmax_.raise(scores, output_, scale_log2_);
      const auto numerators = [&](Numerators<C>& p, int keys) {
        softmax_.exponentiate(p, scores, keys, scale_log2_);
      };
      multiply_p_v<C>(output_, numerators, stream_.v_slot(step), first_key());
    }
    stream_.finish(step);
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
  /// Known when the kernel is compiled, unless warps share rows.
  __device__ int first_key() const { return C.key_groups() == 1 ? 0 : first_key_; }
  /// Alike in all lanes. Opaque, or ptxas takes up to 30 registers more for the loop.
  __device__ bool is_idle() const { return C.has_idle_warps() && ptx::opaque(is_idle_) != 0; }

  const KvStream<C>& stream_;
  QueryFragments<C> query_;
  int first_row_;
  int first_key_;
  SequenceShape shape_;
  float scale_log2_;
  int is_idle_ = 0;
  Output<C> output_ = {};
  SoftmaxState<C> softmax_;
};

/// Normalises, writes O through the warp's own rows of the Q tile at `q_tile`, and the log-sum-exp.
template <PortableAttentionConfig C>
__device__ inline void write_output(const WarpRows<C>& rows, const AttentionParams& params,
                                    unsigned q_tile, QTile tile, int warp_row) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x % 32));
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
        ptx::st_shared(
            q_tile + tile_offset<C>(row, d) + lane % 4 * 4,
            ptx::cvt_rn_x2<C.dtype>(sums[2 * half] * inverse, sums[2 * half + 1] * inverse));
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
template <PortableAttentionConfig C>
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

/// Computes one Q tile, or one split of it. `smem` holds the Q tile, the K ring, the V ring, what
/// is parked and mbarriers. `streamed` is the number of K and V tiles that the CTA has scanned
/// before; returns how many it scans now.
template <PortableAttentionConfig C>
__device__ inline int attend(const Arguments<C>& arguments, unsigned smem, QTile tile, int split,
                             bool backward, int streamed) {
  const AttentionParams& params = arguments.params;
  const SequenceShape shape = sequence_shape<C>(params);
  const int thread = ptx::opaque(static_cast<int>(threadIdx.x));
  const WarpPlace place = warp_place<C>(thread / 32);
  KvTiles scanned{0, kv_tile_count(tile.index, C.tile_m, C.tile_n, shape)};
  int unmasked = unmasked_kv_tile_count(tile.index, C.tile_m, C.tile_n, shape);
  if constexpr (C.split_kv) {
    scanned = kv_part(scanned.count, split, params.kv_splits);
    unmasked = max_of(0, unmasked - scanned.first);
  }
  unmasked = min_of(scanned.count, unmasked);

  __syncthreads();  // The previous Q tile's readers are done with shared memory.
  const Work<C> work(arguments, smem, tile);
  if constexpr (C.parks_work()) {
    __syncthreads();
  }
  const KvStream<C> stream(smem, work, scanned, backward, thread, streamed);
  if constexpr (C.prefetches_kv()) {
    stream.prefetch_first();
  }
  // Where Q, K and V lie has been computed while the launch before ended. At once from the second Q
  // tile on.
  ptx::griddepcontrol_wait();
  if constexpr (C.prefetches_kv()) {
    ptx::griddepcontrol_launch_dependents();  // Memory then has work while this launch ends.
  }
  const auto ask_for_q = [&] {
    copy_tile_in<C, C.tile_m>(smem, query_rows<C>(params.q, params.q_strides, params, tile.head),
                              tile.index * C.tile_m, thread);
  };
  if constexpr (C.pack_gqa) {
    stream.ask_first();  // Does not wait for the divisions that packed rows take.
    ask_for_q();
  } else {
    ask_for_q();
    stream.ask_first();
  }
  stream.ask_rest();
  stream.arrive();
  WarpRows<C> rows(stream, smem, tile.index * C.tile_m, place, thread % 32, shape,
                   params.scale_log2);
  scan_all<C>(rows, stream, scanned.count, unmasked);
  if constexpr (!C.prefetches_kv()) {
    // Only now: CTAs of the launch after that came while others of this one compute would wait in
    // places that the kernels of others could use.
    ptx::griddepcontrol_launch_dependents();
  }
  ptx::cp_async_wait_group<0>();
  if constexpr (C.split_kv) {
    SplitResults<C>(params, smem, work.tile())
        .leave_and_combine(rows.output(), rows.softmax(), split, place);
  } else if constexpr (C.key_groups() > 1) {
    const RowWriter<C> writer(params, work.tile());
    combine_key_groups<C>(smem, rows.output(), rows.softmax(), place,
                          rows_of_tile<C>(params, work.tile()), writer);
  } else {
    write_output<C>(rows, params, smem, work.tile(), place.row);
  }
  return scanned.count;
}

/// All Q tiles, or splits of them, of this CTA.
template <PortableAttentionConfig C>
__device__ inline void run(const Arguments<C>& arguments, unsigned smem) {
  const AttentionParams& params = arguments.params;
  if constexpr (C.uses_tma()) {
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(arguments.k);
      ptx::prefetch_tensormap(arguments.v);
      KvBarriers<C>(smem).initialise();
    }
  }
  int streamed = 0;
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
    streamed +=
        attend<C>(arguments, smem, {ptx::redux_sync_or(tile.head), ptx::redux_sync_or(tile.index)},
                  split, scans_backward(C.order, iteration), streamed);
  }
}

}  // namespace swr::portable
