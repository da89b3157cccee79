// SPDX-License-Identifier: MIT
// A computing warpgroup: 64 keys of every item of the CTA. While the exponentials of a step are
// computed, dP is under way; while dS crosses to the others, dV; while dQ is handed over, dK. S of
// the next step under dK as well would take more registers than there are.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/pipeline.cuh"
#include "attention_backward/hopper/products.cuh"
#include "attention_backward/hopper/weights.cuh"
#include "attention_backward/portable/dq_sums.cuh"
#include "attention_backward/portable/key_gradients.cuh"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/schedule.h"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "common/reduce_ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::hopper {

/// One that multiplies dS by K when `MultipliesDq`.
template <HopperKeyPassConfig C, bool MultipliesDq>
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
  static constexpr bool kOtherMultipliesDq = C.dq_consumers() == 2 || !MultipliesDq;
  static constexpr int kConsumerThreads = C.consumers() * C.kWarpgroup;
  // Named barriers; 0 is __syncthreads.
  static constexpr int kWeightsBarrier = 1;
  static constexpr int kItemBarrier = 2;
  static constexpr int kFirstOwnBarrier = 3;
  static constexpr int kFirstDsBarrier = kFirstOwnBarrier + C.consumers();

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
    if constexpr (kWaitsForTurns) {
      turns_ = backward::turns_of(work.tile, portable::relay_of<C>(params_));
    }
    ptx::mbarrier_wait(smem_.k_full(), parity);
    ptx::mbarrier_wait(smem_.v_full(), parity);
    hold_v();
    portable::WalkCursor cursor(work, 0);
#pragma unroll 1
    for (int step = 0; step < work.steps.count; ++step) {
      take_step(work, cursor.place(work), step);
      cursor.advance(work, 1);
    }
    if constexpr (C.stages_dq() && MultipliesDq) {
      if (work.steps.count > 0) {
        end_dq();
      }
    }
    pass_turn();
  }

  __device__ __forceinline__ void take_step(const portable::KeyWork& work,
                                            const backward::Place& at, int step) {
    const bool masked =
        backward::pair_needs_mask(at.q_tile, work.tile.index, C.tile_m, C.tile_n, shape_);
    const int first_row = at.q_tile * C.tile_m + score_row();
    start_scores();
    const RowValues<C> lse_log2(own_stats());
    start_d_p();
    pass_turn();
    ptx::wgmma_wait_group<1>();
    ptx::warpgroup_fence_operand(scores_);
    exponentiate<C>(scores_, lse_log2, params_.scale_log2);
    const RowValues<C> deltas(own_stats() + backward::kStatsBytes);
    if (masked) {
      hide<C>(scores_, first_row, lane_key(), shape_);
    }
    round_pairs<C.dtype>(p_, scores_, 1.0F);
    if constexpr (C.divides_columns()) {
      store_weights(smem_.p(d_o_.stage), p_);
    }
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(weights_);
    weigh<C>(weights_, scores_, deltas);
    if (masked) {
      hide<C>(weights_, first_row, lane_key(), shape_);
    }
    round_pairs<C.dtype>(ds_, weights_, 1.0F);
    if constexpr (C.divides_columns()) {
      multiply_shared(work, at);
    } else if constexpr (C.sums_dq()) {
      store_ds(step);
      if constexpr (MultipliesDq) {
        multiply_own_and_dq(step, work.steps.count);
      } else {
        multiply_own();
      }
    } else {
      start_dv();
      multiply_own();
    }
    q_.advance();
    d_o_.advance();
  }

  /// Hands the consumer's keys of dS over, under dV.
  __device__ __forceinline__ void store_ds(int step) {
    if (kOtherMultipliesDq && step > 1) {
      ptx::bar_sync<kConsumerThreads>(ds_empty(d_o_.stage, index_));
    }
    store_rounded_across<C.tile_m>(smem_.ds(d_o_.stage), ds_, (own_row() + warp_row()) / 8);
    start_dv();
    ptx::fence_proxy_async();
    if (kOtherMultipliesDq) {
      ptx::bar_arrive<kConsumerThreads>(ds_full(d_o_.stage, index_ ^ 1));
    }
  }

  /// dV, which is under way, and dK from weights of the consumer alone.
  __device__ __forceinline__ void multiply_own() {
    start_dk();
    ptx::wgmma_wait_group<1>();
    ptx::warpgroup_fence_operand(dv_);
    release(smem_.d_o_empty(d_o_.stage));
    end_dk();
  }

  /// The same with dQ of the step before, whose dS has been there for long: so nobody waits for the
  /// other consumer. What the first step of an item multiplies in place of one before goes nowhere.
  __device__ __forceinline__ void multiply_own_and_dq(int step, int steps) {
    const int before = d_o_.stage ^ 1;
    if (step > 0) {
      ptx::bar_sync<kConsumerThreads>(ds_full(before, index_));
    }
    start_dq(before);
    ptx::wgmma_wait_group<1>();
    ptx::warpgroup_fence_operand(dv_);
    release(smem_.d_o_empty(d_o_.stage));
    start_dk();
    ptx::wgmma_wait_group<1>();
    ptx::warpgroup_fence_operand(dq_);
    if (step > 0) {
      if (step + 1 < steps) {
        ptx::bar_arrive<kConsumerThreads>(ds_empty(before, index_ ^ 1));
      }
      stage_dq();
    }
    end_dk();
  }

  /// dQ of an item's last step.
  __device__ __forceinline__ void end_dq() {
    const int before = d_o_.stage ^ 1;
    ptx::bar_sync<kConsumerThreads>(ds_full(before, index_));
    start_dq(before);
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(dq_);
    stage_dq();
  }

  /// dV, dQ and dK from weights of all consumers.
  __device__ __forceinline__ void multiply_shared(const portable::KeyWork& work,
                                                  const backward::Place& at) {
    store_weights(smem_.ds(d_o_.stage), ds_);
    meet();
    start_dv();
    if constexpr (C.sums_dq()) {
      const portable::DqShare<C> share(params_, portable::batch_head(params_, work, at.group_head),
                                       at.q_tile, dq_share());
      start_dq(d_o_.stage);
      if constexpr (kWaitsForTurns) {
        wait_for_turn(share, portable::turn_at<C>(turns_, work, at.q_tile));
      }
      ptx::wgmma_wait_group<1>();
      ptx::warpgroup_fence_operand(dv_);
      release(smem_.d_o_empty(d_o_.stage));
      start_dk();
      ptx::wgmma_wait_group<1>();
      ptx::warpgroup_fence_operand(dq_);
      add_dq(share);
    } else {
      ptx::wgmma_wait_group<0>();
      ptx::warpgroup_fence_operand(dv_);
      release(smem_.d_o_empty(d_o_.stage));
      start_dk();
    }
    end_dk();
  }

  /// The held columns of V of the consumer's keys.
  __device__ __forceinline__ void hold_v() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    constexpr int kFirstChunk = (C.value_dim - C.held_v_columns()) / 8;
#pragma unroll
    for (int step = 0; step < C.held_v_columns() / 16; ++step) {
      const int chunk = kFirstChunk + 2 * step + lane / 16;
      ptx::ldmatrix_x4(v_.steps[step],
                       line_address<C.tile_n>(own_rows(smem_.v()), warp_row() + lane % 16, chunk));
    }
  }

  /// S^T = K Q^T of the step that q_ stands at.
  __device__ __forceinline__ void start_scores() {
    ptx::mbarrier_wait(smem_.q_full(q_.stage), q_.parity);
    ptx::warpgroup_fence_operand(scores_);
    ptx::wgmma_fence();
    multiply_rows<C, C.head_dim>(scores_, own_rows(smem_.k()), score_rows(smem_.q(q_.stage)),
                                 HeldSteps<0>{});
    ptx::wgmma_commit_group();
  }

  /// dP^T = V dO^T.
  __device__ __forceinline__ void start_d_p() {
    ptx::mbarrier_wait(smem_.d_o_full(d_o_.stage), d_o_.parity);
    ptx::warpgroup_fence_operand(weights_);
    v_.fence();
    ptx::wgmma_fence();
    multiply_rows<C, C.value_dim>(weights_, own_rows(smem_.v()), score_rows(smem_.d_o(d_o_.stage)),
                                  v_);
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

  __device__ __forceinline__ void end_dk() {
    ptx::wgmma_wait_group<0>();
    ptx::warpgroup_fence_operand(dk_);
    release(smem_.q_empty(q_.stage));
  }

  /// The consumer's part of P^T or dS^T, for all.
  __device__ __forceinline__ void store_weights(unsigned tile, const RoundedWeights<C>& weights) {
    store_rounded<C.tile_n>(tile, weights, warp_row(), score_row() / 8);
  }

  // Barriers of a stage of dS: consumer `to` waits until the other has stored its keys, or has
  // multiplied what lies there.
  __device__ __forceinline__ static int ds_full(int stage, int to) {
    return kFirstDsBarrier + 2 * stage + to;
  }
  __device__ __forceinline__ static int ds_empty(int stage, int to) {
    return ds_full(stage, to) + 2 * C.kValueStages;
  }

  /// All consumers have stored their part of P and dS. These have two stages, so that nobody waits
  /// for who still multiplies the one before: that product has ended where its consumer comes here
  /// again.
  __device__ __forceinline__ void meet() {
    ptx::fence_proxy_async();
    ptx::bar_sync<kConsumerThreads>(kWeightsBarrier);
  }

  /// dQ of the step whose dS is in `stage`. With 64 rows consumers divide its columns, with 128 its
  /// rows.
  __device__ __forceinline__ void start_dq(int stage) {
    const int row = C.tile_m == 64 ? 0 : 64 * index_;
    const int panel = C.tile_m == 64 ? index_ * (C.dq_columns() / C.kPanelColumns) : 0;
    ptx::warpgroup_fence_operand(dq_);
    ptx::wgmma_fence();
    multiply_ds_k<C>(dq_, smem_.ds(stage) + row * C.kLineBytes,
                     smem_.k() + panel * (C.tile_n * C.kLineBytes));
    ptx::wgmma_commit_group();
  }

  /// Adds the warp's share to the sums in global memory. The first turn stores, so that nobody has
  /// to write zeros before.
  __device__ __forceinline__ void add_dq(const portable::DqShare<C>& share) const {
    const bool stores = kWaitsForTurns && turn_number_ == 0;
#pragma unroll
    for (int n = 0; n < C.dq_fragments(); ++n) {
      if (is_own_fragment(n)) {
        const float sums[4] = {dq_[4 * n], dq_[4 * n + 1], dq_[4 * n + 2], dq_[4 * n + 3]};
        if (stores) {
          share.leave(n, sums);
        } else {
          share.add(n, sums);
        }
      }
    }
  }

  __device__ __forceinline__ void wait_for_turn(const portable::DqShare<C>& share,
                                                portable::Turn turn) {
    turn_ = share.turn();
    turn_number_ = turn.number;
    if (threadIdx.x % 32 == 0) {
      ptx::ld_acquire_until(turn_, static_cast<unsigned>(turn_number_));
    }
    __syncwarp();
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

  /// Leaves the warp's share, with that of the other consumer where that one multiplies none, to
  /// the warp that has it added.
  __device__ __forceinline__ void stage_dq() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const unsigned staged = smem_.staged_dq(staged_.stage, dq_share());
    ptx::mbarrier_wait(smem_.dq_empty(staged_.stage, index_), staged_.parity ^ 1);
#pragma unroll
    for (int n = 0; n < min_of(C.dq_product_columns(), C.head_dim) / 8; ++n) {
      ptx::st_shared(staged + static_cast<unsigned>(n * 512 + lane * 16),
                     make_float4(dq_[4 * n], dq_[4 * n + 1], dq_[4 * n + 2], dq_[4 * n + 3]));
    }
    __syncwarp();
    if (lane == 0) {
      ptx::mbarrier_arrive(smem_.dq_full(staged_.stage, index_));
    }
    staged_.advance();
  }

  /// False for eight columns of the warp's share of dQ that are padding: those at the end of the
  /// last consumer's.
  __device__ __forceinline__ bool is_own_fragment(int fragment) const {
    constexpr int kLast = C.own_dq_fragments(C.key_columns() - C.dq_columns());
    return fragment < kLast || (C.dq_columns() < C.key_columns() && index_ == 0);
  }

  __device__ __forceinline__ int dq_share() const {
    return C.dq_share(index_, static_cast<int>(threadIdx.x % C.kWarpgroup / 32));
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
  HeldSteps<C.held_v_columns() / 16> v_;
  KeySums<C> dk_;
  ValueSums<C> dv_;
  unsigned* turn_ = nullptr;  ///< Of the step before, which pass_turn() ends.
  int turn_number_ = 0;
  backward::Turns turns_;
  RingPosition<C.stages> q_;
  RingPosition<C.kValueStages> d_o_;
  RingPosition<C.dq_stages()> staged_;
};

}  // namespace swr::hopper
