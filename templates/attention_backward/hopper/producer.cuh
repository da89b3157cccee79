// SPDX-License-Identifier: MIT
// The loading warp: keeps the copy engine busy and runs ahead of the consumers as far as the rings
// allow. All its lanes walk; one of them issues.
#pragma once

#include "attention_backward/hopper/config.h"
#include "attention_backward/hopper/pipeline.cuh"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/portable/row_stats.cuh"
#include "attention_backward/schedule.h"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::hopper {

template <HopperKeyPassConfig C>
class KeyProducer {
 public:
  __device__ __forceinline__ KeyProducer(BackwardMemory<C> smem,
                                         const AttentionBackwardParams& params,
                                         const BackwardMaps& maps)
      : smem_(smem), params_(params), maps_(maps), issues_(threadIdx.x % 32 == 0) {}

  __device__ __forceinline__ void run() {
    const portable::KeyItems<C> items(params_, 0);
    ptx::griddepcontrol_wait();
    for (int iteration = 0;; ++iteration) {
      const long long item = item_of<C>(items, iteration);
      if (item < 0) {
        break;
      }
      load_item(items, item, iteration);
      if constexpr (C.persistence == Persistence::grid) {
        break;  // Known to be the only one, it takes fewer registers.
      }
    }
    ptx::griddepcontrol_launch_dependents();
  }

 private:
  __device__ __forceinline__ void load_item(const portable::KeyItems<C>& items, long long item,
                                            int iteration) {
    const portable::KeyWork work = work_of<C>(params_, items, smem_, item);
    const int first_key = work.tile.index * C.tile_n;
    ptx::mbarrier_wait(smem_.kv_empty(), (iteration + 1) & 1);
    load_tile(smem_.k(), maps_.k, {0, first_key, work.head_kv, work.batch}, C.key_box().rows,
              C.key_columns(), smem_.k_full(), 0);
    portable::WalkCursor cursor(work, 0);
#pragma unroll 1
    for (int step = 0; step < work.steps.count; ++step) {
      const backward::Place at = cursor.place(work);
      cursor.advance(work, 1);
      const int first_row = at.q_tile * C.tile_m;
      const int head = work.query_head(at.group_head);
      load_q(work, head, first_row);
      if (step == 0) {
        load_v(work);
      }
      load_d_o({0, first_row, head, work.batch});
      q_.advance();
      d_o_.advance();
    }
    if (work.steps.count == 0) {
      load_v(work);  // A part without steps takes its turn of the barrier all the same.
    }
  }

  __device__ __forceinline__ void load_v(const portable::KeyWork& work) const {
    const int first_key = work.tile.index * C.tile_n;
    load_tile(smem_.v(), maps_.v, {0, first_key, work.head_kv, work.batch}, C.key_box().rows,
              C.value_columns(), smem_.v_full(), 0);
  }

  /// A Q tile, and what is known of its rows.
  __device__ __forceinline__ void load_q(const portable::KeyWork& work, int head, int first_row) {
    const int batch_head = work.batch * params_.heads_q + head;
    const int rows = min_of(C.tile_m, params_.row_pitch - first_row);
    const int stats_bytes = rows * backward::kStatsBytes;
    const unsigned full = smem_.q_full(q_.stage);
    ptx::mbarrier_wait(smem_.q_empty(q_.stage), q_.parity ^ 1);
    load_tile(smem_.q(q_.stage), maps_.q, {0, first_row, head, work.batch}, C.row_box().rows,
              C.key_columns(), full, stats_bytes);
    if (issues_) {
      ptx::cp_async_bulk_global_to_shared(smem_.stats(q_.stage),
                                          portable::stats_of(params_, batch_head, first_row),
                                          stats_bytes, full);
    }
  }

  __device__ __forceinline__ void load_d_o(const ptx::BoxCorner& corner) const {
    // Rings of the same length go in step; held once, they take fewer registers.
    int stage = d_o_.stage;
    unsigned parity = d_o_.parity;
    if constexpr (C.stages == C.kValueStages) {
      stage = q_.stage;
      parity = q_.parity;
    }
    ptx::mbarrier_wait(smem_.d_o_empty(stage), parity ^ 1);
    load_tile(smem_.d_o(stage), maps_.d_o, corner, C.row_box().rows, C.value_columns(),
              smem_.d_o_full(stage), 0);
  }

  /// All panels of a tile of `rows` rows; the barrier expects `more` bytes beside them.
  __device__ __forceinline__ void load_tile(unsigned shared, const TensorMap& map,
                                            ptx::BoxCorner corner, int rows, int columns,
                                            unsigned full, int more) const {
    if (!issues_) {
      return;
    }
    ptx::mbarrier_arrive_expect_tx(full, rows * columns * 2 + more);
#pragma unroll 1  // The loading warpgroup has few registers.
    for (int column = 0; column < columns; column += C.kPanelColumns) {
      corner.column = column;
      ptx::cp_async_bulk_tensor_4d_global_to_shared(shared, map, corner, full);
      shared += rows * C.kLineBytes;
    }
  }

  BackwardMemory<C> smem_;
  const AttentionBackwardParams& params_;
  const BackwardMaps& maps_;
  bool issues_;
  RingPosition<C.stages> q_;
  RingPosition<C.kValueStages> d_o_;
};

}  // namespace swr::hopper
