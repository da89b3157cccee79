// SPDX-License-Identifier: MIT
// A computing warpgroup: 64 keys of every item of the CTA. While the exponentials of a step are
// computed, dP is under way; while dS crosses to the others, dV; while dQ is handed to the copy
// engine, dK. S of the next step under dK as well would take more registers than there are.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/pipeline.cuh"
#include "attention_backward/hopper/products.cuh"
#include "attention_backward/hopper/weights.cuh"
#include "attention_backward/portable/dq_sums.cuh"
#include "attention_backward/portable/key_gradients.cuh"
#include "attention_backward/portable/key_work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/reduce_ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::hopper {

template <HopperKeyPassConfig C>
class KeyConsumer {
 public:
  __device__ __forceinline__ KeyConsumer(BackwardMemory<C> smem, int index,
                                         const AttentionBackwardParams& params,
                                         const BackwardMaps& maps)
      : smem_(smem),
        index_(index),
        params_(params),
        maps_(maps),
        shape_{params.seq_q, params.seq_kv, C.causal} {}

  /// All items of the CTA.
  __device__ __forceinline__ void run() {
    const portable::KeyItems<C> items(params_, 0);
    ptx::griddepcontrol_wait();
    for (int iteration = 0;; ++iteration) {
      const long long item = item_of<C>(items, iteration);
      if (item < 0) {
        break;
      }
      const portable::KeyWork work = work_of<C>(params_, items, smem_, item);
      take_item(work, static_cast<unsigned>(iteration) & 1U);
      write_gradients(work);
    }
    ptx::cp_async_bulk_wait_group();
  }

 private:
  /// Without other warps that do.
  static constexpr bool kWaitsForTurns = C.takes_turns() && !C.stages_dq();
  static constexpr int kConsumerThreads = C.consumers() * C.kWarpgroup;
  // Named barriers; 0 is __syncthreads.
  static constexpr int kDsBarrier = 1;
  static constexpr int kItemBarrier = 2;
  static constexpr int kFirstOwnBarrier = 3;

  __device__ __forceinline__ void take_item(const portable::KeyWork& work, unsigned parity) {
    first_key_ = work.tile.index * C.tile_n + own_row();
#pragma unroll
    for (int i = 0; i < C.own_key_columns() / 2; ++i) {
      dk_[i] = 0.0F;
    }
#pragma unroll
    for (int i = 0; i < C.own_value_columns() / 2; ++i) {
      dv_[i] = 0.0F;
    }
    ptx::mbarrier_wait(smem_.k_full(), parity);
    ptx::mbarrier_wait(smem_.v_full(), parity);
#pragma unroll 1
    for (int step = 0; step < work.steps.count; ++step) {
      take_step();
    }
    pass_turn();
  }

  __device__ __forceinline__ void take_step() {
    start_scores();
    start_d_p();
    pass_turn();
    const StepPlace place = take_place(smem_.place(q_.stage), smem_.q_empty(q_.stage));
    ptx::wgmma_wait_group<1>();
    ptx::warpgroup_fence_operand(scores_);
    exponentiate<C>(scores_, own_stats(), params_.scale_log2);
    if (place.masked != 0) {
      hide<C>(scores_, place.q_tile * C.tile_m + score_row(), lane_key(), shape_);
    }
    round_pairs<C.dtype>(p_, scores_, 1.0F);
    if constexpr (C.divides_columns()) {
      store_weights(smem_.p(d_o_.stage), p_);
    }
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(weights_);
    weigh<C>(weights_, scores_, own_stats());
    if (place.masked != 0) {
      hide<C>(weights_, place.q_tile * C.tile_m + score_row(), lane_key(), shape_);
    }
    round_pairs<C.dtype>(ds_, weights_, 1.0F);
    if constexpr (C.stores_ds()) {
      store_weights(smem_.ds(d_o_.stage), ds_);
    }
    // Where P crosses as well, dV needs the others' first.
    if constexpr (C.divides_columns()) {
      meet();
      start_dv();
    } else {
      start_dv();
      meet();
    }
    if constexpr (C.sums_dq()) {
      start_dq();
      wait_for_turn(place);
      ptx::wgmma_wait_group<1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    ptx::warpgroup_fence_operand(dv_);
    release(smem_.d_o_empty(d_o_.stage));
    start_dk();
    if constexpr (C.sums_dq()) {
      ptx::wgmma_wait_group<1>();
      ptx::warpgroup_fence_operand(dq_);
      if constexpr (C.stages_dq()) {
        stage_dq(place);
      } else {
        add_dq(place);
      }
    }
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(dk_);
    release(smem_.q_empty(q_.stage));
    q_.advance();
    d_o_.advance();
  }

  /// S^T = K Q^T of the step that q_ stands at.
  __device__ __forceinline__ void start_scores() {
    ptx::mbarrier_wait(smem_.q_full(q_.stage), q_.parity);
    ptx::warpgroup_fence_operand(scores_);
    ptx::wgmma_fence();
    multiply_rows<C, C.head_dim>(scores_, own_rows(smem_.k()), score_rows(smem_.q(q_.stage)));
    ptx::wgmma_commit_group();
  }

  /// dP^T = V dO^T.
  __device__ __forceinline__ void start_d_p() {
    ptx::mbarrier_wait(smem_.d_o_full(d_o_.stage), d_o_.parity);
    ptx::warpgroup_fence_operand(weights_);
    ptx::wgmma_fence();
    multiply_rows<C, C.value_dim>(weights_, own_rows(smem_.v()), score_rows(smem_.d_o(d_o_.stage)));
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void start_dv() {
    ptx::warpgroup_fence_operand(dv_);
    ptx::warpgroup_fence_operand(p_);
    ptx::wgmma_fence();
    const unsigned d_o = own_columns<C.own_value_columns()>(smem_.d_o(d_o_.stage), C.tile_m);
    if constexpr (C.divides_columns()) {
      add_product<C, C.own_value_columns()>(dv_, smem_.p(d_o_.stage), d_o);
    } else {
      add_product<C, C.own_value_columns()>(dv_, p_, d_o);
    }
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void start_dk() {
    ptx::warpgroup_fence_operand(dk_);
    ptx::warpgroup_fence_operand(ds_);
    ptx::wgmma_fence();
    const unsigned q = own_columns<C.own_key_columns()>(smem_.q(q_.stage), C.tile_m);
    if constexpr (C.divides_columns()) {
      add_product<C, C.own_key_columns()>(dk_, smem_.ds(d_o_.stage), q);
    } else {
      add_product<C, C.own_key_columns()>(dk_, ds_, q);
    }
    ptx::wgmma_commit_group();
  }

  /// The consumer's part of P^T or dS^T.
  __device__ __forceinline__ void store_weights(unsigned tile, const RoundedWeights<C>& weights) {
    store_rounded<C.tile_n>(own_rows(tile), weights, warp_row(), score_row() / 8);
  }

  /// All consumers have stored their part of dS. It has two stages, so that nobody waits for who
  /// still multiplies the one before: that product has ended where its consumer comes here again.
  __device__ __forceinline__ void meet() {
    if constexpr (C.stores_ds()) {
      ptx::fence_proxy_async();
    }
    ptx::bar_sync<kConsumerThreads>(kDsBarrier);
  }

  __device__ __forceinline__ void start_dq() {
    constexpr int kDsPanel = C.tile_n * C.kLineBytes;
    const unsigned rows = C.tile_m == 64 ? 0 : index_ * kDsPanel;
    const unsigned columns = C.tile_m == 64 ? index_ * (C.dq_columns() / 64) * kDsPanel : 0;
    ptx::warpgroup_fence_operand(dq_);
    ptx::wgmma_fence();
    multiply_ds_k<C>(dq_, smem_.ds(d_o_.stage) + rows, smem_.k() + columns);
    ptx::wgmma_commit_group();
  }

  /// Adds the warp's share to the sums in global memory. The first turn stores, so that nobody has
  /// to write zeros before.
  __device__ __forceinline__ void add_dq(const StepPlace& place) const {
    const portable::DqShare<C> target(params_, place.batch_head, place.q_tile, dq_share());
    const bool stores = C.takes_turns() && place.turn == 0;
#pragma unroll
    for (int n = 0; n < C.dq_fragments(); ++n) {
      if (is_own_fragment(n)) {
        const float sums[4] = {dq_[4 * n], dq_[4 * n + 1], dq_[4 * n + 2], dq_[4 * n + 3]};
        if (stores) {
          target.leave(n, sums);
        } else {
          target.add(n, sums);
        }
      }
    }
  }

  __device__ __forceinline__ void wait_for_turn(const StepPlace& place) {
    if constexpr (kWaitsForTurns) {
      turn_ = portable::DqShare<C>(params_, place.batch_head, place.q_tile, dq_share()).turn();
      turn_number_ = place.turn;
      if (threadIdx.x % 32 == 0) {
        ptx::ld_acquire_until(turn_, static_cast<unsigned>(turn_number_));
      }
      __syncwarp();
    }
  }

  /// Lets the next tile add to what the last step has added to. Not at once: S and dP of the next
  /// step are under way while the additions end.
  __device__ __forceinline__ void pass_turn() {
    if constexpr (kWaitsForTurns) {
      __syncwarp();
      if (threadIdx.x % 32 == 0 && turn_ != nullptr) {
        ptx::st_release(turn_, static_cast<unsigned>(turn_number_ + 1));
      }
    }
  }

  /// The same by the copy engine: a share is one piece. With turns another warp has it added.
  __device__ __forceinline__ void stage_dq(const StepPlace& place) const {
    const int share = dq_share();
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int stage = C.takes_turns() ? d_o_.stage : 0;
    const unsigned staged = smem_.staged_dq(stage, share);
    if constexpr (C.takes_turns()) {
      ptx::mbarrier_wait(smem_.dq_empty(stage), d_o_.parity ^ 1);
    } else {
      if (lane == 0) {
        ptx::cp_async_bulk_wait_group_read();
      }
      __syncwarp();
    }
#pragma unroll
    for (int n = 0; n < C.dq_fragments(); ++n) {
      if (is_own_fragment(n)) {
        ptx::st_shared(staged + static_cast<unsigned>(n * 512 + lane * 16),
                       make_float4(dq_[4 * n], dq_[4 * n + 1], dq_[4 * n + 2], dq_[4 * n + 3]));
      }
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      if constexpr (C.takes_turns()) {
        ptx::mbarrier_arrive(smem_.dq_full(stage));
      } else {
        const portable::DqShare<C> target(params_, place.batch_head, place.q_tile, share);
        ptx::cp_reduce_async_bulk_add_f32(target.sums(0), staged,
                                          static_cast<unsigned>(C.dq_share_bytes(share)));
        ptx::cp_async_bulk_commit_group();
      }
    }
  }

  /// False for eight columns of the warp's share of dQ that are padding: those at the end of the
  /// last consumer's.
  __device__ __forceinline__ bool is_own_fragment(int fragment) const {
    constexpr int kLast = C.own_dq_fragments(C.key_columns() - C.dq_columns());
    return fragment < kLast || (C.dq_columns() < C.key_columns() && index_ == 0);
  }

  /// Which share of dQ the warp has, as DqShare counts.
  __device__ __forceinline__ int dq_share() const {
    const int warp = static_cast<int>(threadIdx.x % C.kWarpgroup / 32);
    return C.tile_m == 64 ? 2 * warp + index_ : 4 * index_ + warp;
  }

  /// dK and dV of the item: through the places of K and V, or, in parts, as fp32.
  __device__ __forceinline__ void write_gradients(const portable::KeyWork& work) {
    ptx::bar_sync<kConsumerThreads>(kItemBarrier);  // All have read K.
    if (params_.parts > 1) {
      leave_part<C.own_key_columns()>(work, dk_, C.head_dim, 0);
      leave_part<C.own_value_columns()>(work, dv_, C.value_dim,
                                        portable::part_floats(params_, C.head_dim));
    } else {
      store_sums<C.own_key_columns()>(smem_.k(), dk_, params_.scale);
      store_sums<C.own_value_columns()>(smem_.v(), dv_, 1.0F);
      ptx::fence_proxy_async();
      ptx::bar_sync<C.kWarpgroup>(kFirstOwnBarrier + index_);
      if (threadIdx.x % C.kWarpgroup == 0) {
        copy_out<C.own_key_columns()>(maps_.dk, smem_.k(), work);
        copy_out<C.own_value_columns()>(maps_.dv, smem_.v(), work);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read();
      }
    }
    release(smem_.kv_empty());
  }

  /// The consumer's sums, rounded, to the place of K or V.
  template <int Columns>
  __device__ __forceinline__ void store_sums(unsigned tile, const float (&sums)[Columns / 2],
                                             float factor) const {
    unsigned rounded[Columns / 4];
    round_pairs<C.dtype>(rounded, sums, factor);
    store_rounded<C.tile_n>(own_columns<Columns>(own_rows(tile), C.tile_n), rounded, warp_row());
  }

  /// One thread. Columns past the end of a row are not written.
  template <int Columns>
  __device__ __forceinline__ void copy_out(const TensorMap& map, unsigned tile,
                                           const portable::KeyWork& work) const {
#pragma unroll
    for (int column = 0; column < Columns; column += C.kPanelColumns) {
      ptx::cp_async_bulk_tensor_4d_shared_to_global(
          map, {own_column<Columns>() + column, first_key_, work.head_kv, work.batch},
          own_columns<Columns>(own_rows(tile), C.tile_n) +
              column / C.kPanelColumns * (C.tile_n * C.kLineBytes));
    }
  }

  /// Sums of keys that exist as fp32 rows of `columns`, `offset` floats from where those of dK lie.
  template <int Columns>
  __device__ __forceinline__ void leave_part(const portable::KeyWork& work,
                                             const float (&sums)[Columns / 2], int columns,
                                             long long offset) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = lane_key() + 8 * half;
      if (key < params_.seq_kv) {
        float* const row =
            portable::part_rows(params_, work.part, work.tile.head, key, columns) + offset;
        const int first = own_column<Columns>() + static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
        for (int n = 0; n < Columns / 8; ++n) {
          if (first + 8 * n < columns) {
            __stcg(reinterpret_cast<float2*>(row + first + 8 * n),
                   make_float2(sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1]));
          }
        }
      }
    }
  }

  /// One thread speaks for the warpgroup: its products have been waited for.
  __device__ __forceinline__ static void release(unsigned barrier) {
    if (threadIdx.x % C.kWarpgroup == 0) {
      ptx::mbarrier_arrive(barrier);
    }
  }

  /// First of the consumer's 64 keys in the tile, and its keys of every panel of a tile.
  __device__ __forceinline__ int own_row() const { return C.divides_columns() ? 0 : 64 * index_; }
  __device__ __forceinline__ unsigned own_rows(unsigned tile) const {
    return tile + own_row() * C.kLineBytes;
  }
  /// First column of the consumer's `Columns` ones, and the panel with it of a tile of `rows` rows.
  template <int Columns>
  __device__ __forceinline__ int own_column() const {
    return C.divides_columns() ? index_ * Columns : 0;
  }
  template <int Columns>
  __device__ __forceinline__ unsigned own_columns(unsigned tile, int rows) const {
    return tile + own_column<Columns>() / C.kPanelColumns * (rows * C.kLineBytes);
  }
  /// First row of a step whose scores the consumer computes, and what belongs to it.
  __device__ __forceinline__ int score_row() const {
    return C.divides_columns() ? index_ * C.score_rows() : 0;
  }
  __device__ __forceinline__ unsigned score_rows(unsigned tile) const {
    return tile + score_row() * C.kLineBytes;
  }
  __device__ __forceinline__ unsigned own_stats() const {
    return smem_.stats(q_.stage) + score_row() * backward::kStatsBytes;
  }
  /// First of the warp's 16 keys, counted from the consumer's first.
  __device__ __forceinline__ static int warp_row() {
    return static_cast<int>(threadIdx.x % C.kWarpgroup / 32 * 16);
  }
  /// Global index of the first of the thread's two keys; the other is 8 below.
  __device__ __forceinline__ int lane_key() const {
    return first_key_ + warp_row() + static_cast<int>(threadIdx.x % 32 / 4);
  }

  BackwardMemory<C> smem_;
  int index_;
  const AttentionBackwardParams& params_;
  const BackwardMaps& maps_;
  SequenceShape shape_;
  int first_key_ = 0;
  Weights<C> scores_;   ///< S^T, then P^T.
  Weights<C> weights_;  ///< dP^T, then dS^T.
  DqSums<C> dq_;
  RoundedWeights<C> p_;
  RoundedWeights<C> ds_;
  KeySums<C> dk_;
  ValueSums<C> dv_;
  unsigned* turn_ = nullptr;  ///< Of the step before, which pass_turn() ends.
  int turn_number_ = 0;
  RingPosition<C.stages> q_;
  RingPosition<C.kValueStages> d_o_;
};

}  // namespace swr::hopper
