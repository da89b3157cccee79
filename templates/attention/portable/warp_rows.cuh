// SPDX-License-Identifier: MIT
// The rows of one warp of a Q tile over the scan of K and V, and how they are written. The kernel
// for unequal sequences computes with this code too; what differs are where K and V come from (the
// stream), what happens to scores before the softmax (the scoring) and where rows go (the target).
#pragma once

#include "attention/config.h"
#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/ptx.cuh"

namespace swr::portable {

/// `Qk` is the product with K and the softmax, `Pv` the product with V. Warps without rows compute
/// nothing, but take every step: they copy too, and a barrier of the CTA is one instruction that
/// all of its threads come to, so that none may stand on a path that only some warps take.
template <PortableAttentionConfig Qk, PortableAttentionConfig Pv, typename Stream, typename Scoring>
class WarpRows {
 public:
  __device__ WarpRows(Stream& stream, const Scoring& scoring, unsigned q_tile, WarpPlace place,
                      int lane, float scale_log2)
      : stream_(stream),
        scoring_(scoring),
        query_(q_tile, place.row, lane),
        first_key_(place.key),
        scale_log2_(scale_log2) {
    query_.load();
    if constexpr (Scoring::kHasIdleWarps) {
      is_idle_ = ptx::redux_sync_or(scoring.is_idle() ? 1 : 0);
    }
  }

  /// One K/V tile, which needs a mask or does not.
  template <bool Masked>
  __device__ void take(int step) {
    stream_.begin(step);
    Scores<Qk> scores;
    if (!is_idle()) {
      multiply_q_k<Qk>(scores, query_, stream_.k_slot(step), first_key());
      scoring_.template prepare<Masked>(scores, stream_, step, first_key());
    }
    stream_.turn(step);
    if (!is_idle()) {
      softmax_.raise(scores, output_, scale_log2_);
      const auto numerators = [&](Numerators<Pv>& p, int keys) {
        softmax_.exponentiate(p, scores, keys, scale_log2_);
      };
      multiply_p_v<Pv>(output_, numerators, stream_.v_slot(step), first_key());
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

  __device__ const Output<Pv>& output() const { return output_; }
  __device__ const SoftmaxState<Pv>& softmax() const { return softmax_; }

 private:
  /// Known when the kernel is compiled, unless warps share rows.
  __device__ int first_key() const { return Qk.key_groups() == 1 ? 0 : first_key_; }
  /// Alike in all lanes. Opaque, or ptxas takes up to 30 registers more for the loop.
  __device__ bool is_idle() const { return Scoring::kHasIdleWarps && ptx::opaque(is_idle_) != 0; }

  Stream& stream_;
  Scoring scoring_;
  QueryFragments<Qk> query_;
  int first_key_;
  float scale_log2_;
  int is_idle_ = 0;
  Output<Pv> output_ = {};
  SoftmaxState<Pv> softmax_;
};

/// Normalises the warp's rows and writes them through its own rows of the Q tile at `q_tile`, which
/// all warps have read unless rows of Q and of O are `EquallyLong`; and their log-sum-exps.
template <PortableAttentionConfig C, bool EquallyLong, typename Target>
__device__ inline void write_rows(const Target& target, const Output<C>& output,
                                  const SoftmaxState<C>& softmax, unsigned q_tile, int warp_row) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x % 32));
  const int first_row = target.first_row();
  const int rows = target.head_rows();
  const auto ends = target.ends();
  if constexpr (EquallyLong) {
    __syncwarp();
  } else {
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
      const float sum = row_sum(softmax.sum[m][half]);
      const auto end = ends.finish(first_row + row, softmax.shift[m][half], sum);
#pragma unroll
      for (int d = 0; d < C.head_dim / 8; ++d) {
        const auto& sums = output[m][d];
        ptx::st_shared(
            q_tile + tile_offset<C, C.tile_m>(row, d) + lane % 4 * 4,
            ptx::cvt_rn_x2<C.dtype>(sums[2 * half] * end.factor, sums[2 * half + 1] * end.factor));
      }
      if (lane % 4 == 0 && first_row + row < rows) {
        ends.write_lse(first_row + row, end);
      }
    }
  }
  __syncwarp();
  copy_rows_out<C, 16 * C.m_blocks()>(q_tile, target.output_rows(), first_row, warp_row, lane);
}

}  // namespace swr::portable
