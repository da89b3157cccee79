// SPDX-License-Identifier: MIT
// 64 rows of a Q tile over the scan of K and V, multiplied by a warpgroup with wgmma: the portable
// family's kernel otherwise. mma.sync reads K and V from shared memory once for every 16 rows,
// which from 64 rows on takes longer than memory does.
#pragma once

#include "attention/hopper/matrix.cuh"
#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention_serving/config.h"
#include "attention_serving/portable/kernel.cuh"
#include "common/hopper_ptx.cuh"

namespace swr::serving {

/// As portable::WarpRows, whose layouts of scores, numerators and output are those of wgmma.
template <ServingAttentionConfig C>
class WarpgroupRows {
 public:
  __device__ WarpgroupRows(KvStream<C>& stream, const Scoring<C>& scoring, unsigned q_tile,
                           portable::WarpPlace /*place*/, int /*lane*/, float scale_log2)
      : stream_(stream), scoring_(scoring), q_tile_(q_tile), scale_log2_(scale_log2) {}

  /// Steps [first, last), which all need a mask or all do not.
  template <bool Masked>
  __device__ void scan(int first, int last) {
#pragma unroll 1
    for (int step = first; step < last; ++step) {
      take<Masked>(step);
    }
  }

  __device__ const portable::Output<C.pv()>& output() const { return output_; }
  __device__ const portable::SoftmaxState<C.pv()>& softmax() const { return softmax_; }

 private:
  static constexpr HopperAttentionConfig kProducts = C.products();
  static_assert(C.tile_m == 64 && C.warps == 4 && C.head_dim == C.head_dim_v &&
                C.head_dim == kProducts.padded_head_dim());

  template <bool Masked>
  __device__ void take(int step) {
    stream_.begin(step);
    portable::Scores<C.qk()> scores;
    auto& sums = reinterpret_cast<hopper::Scores<kProducts>&>(scores);
    ptx::warpgroup_fence_operand(sums);
    ptx::wgmma_fence();
    hopper::multiply_q_k<kProducts>(sums, q_tile_, stream_.k_slot(step));
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(sums);
    scoring_.template prepare<Masked>(scores, stream_, step, 0);
    stream_.turn(step);
    softmax_.raise(scores, output_, scale_log2_);
    hopper::Numerators<kProducts> numerators;
#pragma unroll
    for (int keys = 0; keys < C.tile_n / 16; ++keys) {
      softmax_.exponentiate(reinterpret_cast<portable::Numerators<C.pv()>&>(numerators[4 * keys]),
                            scores, keys, scale_log2_);
    }
    auto& output = reinterpret_cast<hopper::Output<kProducts>&>(output_);
    ptx::warpgroup_fence_operand(output);
    ptx::warpgroup_fence_operand(numerators);
    ptx::wgmma_fence();
    hopper::multiply_p_v<kProducts>(output, numerators, stream_.v_slot(step));
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(output);
    stream_.finish(step);
  }

  KvStream<C>& stream_;
  Scoring<C> scoring_;
  unsigned q_tile_;
  float scale_log2_;
  portable::Output<C.pv()> output_ = {};
  portable::SoftmaxState<C.pv()> softmax_;
};

template <ServingAttentionConfig C>
requires(C.wgmma) struct RowsOf<C> {
  using Type = WarpgroupRows<C>;
};

}  // namespace swr::serving
