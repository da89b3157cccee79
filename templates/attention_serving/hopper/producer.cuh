// SPDX-License-Identifier: MIT
// The warp that keeps the copy engine busy and runs ahead of the consumers as far as the rings
// allow, also into the next Q tile. Each lane has a piece of every K and V tile, whose page it
// looks up a tile ahead and whose place it works out; lane 0 asks for all of them.
#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention_serving/hopper/memory.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"

namespace swr::serving {

/// All 32 lanes call every function together.
template <HopperServingConfig C>
class ServingProducer {
 public:
  __device__ __forceinline__ ServingProducer(hopper::SharedMemory<C.dense()> smem,
                                             const ItemMemory<C>& items, const HopperMaps& maps)
      : smem_(smem), items_(items), maps_(maps), lane_(static_cast<int>(threadIdx.x % 32)) {}

  /// K runs one tile ahead of V, as in the dense family. The next Q tile goes out as soon as it has
  /// been found and its slot is free, without holding up K and V.
  __device__ __forceinline__ void run() {
    ptx::griddepcontrol_wait();
    wait_for_item();
    bool q_requested = false;
    while (tiles_ > 0) {
      int page = page_of(0);
      int next_page = page_of(1);
      load_k(0, page);
      if (!q_requested) {
        load_q();
      }
      give_item_back();
      q_requested = false;
#pragma unroll 1
      for (int step = 1; step < tiles_; ++step) {
        load_k(step, next_page);
        load_v(step - 1, page);
        page = next_page;
        next_page = page_of(step + 1);
        if (!q_requested && next_q_can_go()) {
          load_q();
          q_requested = true;
        }
      }
      load_v(tiles_ - 1, page);
      wait_for_item();
    }
    if (!q_requested) {
      load_q();
    }
    // Not before: see the dense family.
    ptx::griddepcontrol_launch_dependents();
  }

 private:
  static constexpr HopperAttentionConfig kDense = C.dense();
  static constexpr int kLine = kDense.panel_columns() * 2;
  static constexpr int kQBoxBytes = 64 * kLine;
  static constexpr int kKvPanelBytes = C.tile_n * kLine;

  /// What is streamed of the item found next, which the loop then has in registers.
  __device__ __forceinline__ void wait_for_item() {
    ptx::mbarrier_wait(items_.found_full(found_.stage), found_.parity);
    const Item<C> item = items_.found(found_.stage);
    tiles_ = tiles_of<C>(item);
    if (tiles_ == 0) {
      return;
    }
    keys_end_ = item.keys().end;
    kv_head_ = item.kv_head();
    backward_ = scans_backward(C.order, iteration_);
    ++iteration_;
    if constexpr (C.has_pages()) {
      const Pages pages = item.pages();
      pages_ = pages.ids;
      split_ = pages.split;
    } else {
      first_ = item.first_key();
    }
  }
  __device__ __forceinline__ void give_item_back() {
    __syncwarp();
    if (lane_ == 0) {
      ptx::mbarrier_arrive(items_.found_empty(found_.stage));
    }
    found_.advance();
  }

  __device__ __forceinline__ bool next_q_can_go() const {
    const bool can = ptx::mbarrier_test_wait(items_.found_full(found_.stage), found_.parity) &&
                     ptx::mbarrier_test_wait(smem_.q_empty(q_.stage), q_.parity ^ 1);
    return __all_sync(0xffffffffU, can ? 1 : 0) != 0;
  }

  /// The Q tile of the item found next, which is there, or that there are no more.
  __device__ __forceinline__ void load_q() {
    ptx::mbarrier_wait(smem_.q_empty(q_.stage), q_.parity ^ 1);
    if (lane_ == 0) {
      const Item<C> item = items_.found(found_.stage);
      items_.of_slot(q_.stage).park_copy(item);
      if (tiles_of<C>(item) > 0) {
        ptx::mbarrier_arrive_expect_tx(smem_.q_full(q_.stage), kDense.q_tile_bytes());
        load_q_boxes(item);
      } else {
        ptx::mbarrier_arrive(smem_.q_full(q_.stage));
      }
    }
    __syncwarp();
    q_.advance();
  }
  __device__ __forceinline__ void load_q_boxes(const Item<C>& item) {
    const QTile tile = item.tile();
    const int seq_q = item.sequence().seq_q;
    const RowPlace first = item.first_query();
#pragma unroll 1
    for (int consumer = 0; consumer < kDense.consumers(); ++consumer) {
      const int row = tile.index * C.tile_m + 64 * consumer;
#pragma unroll 1
      for (int panel = 0; panel < kDense.panels(); ++panel) {
        ptx::cp_async_bulk_tensor_5d_global_to_shared(
            smem_.q(q_.stage, consumer) + panel * kQBoxBytes, maps_.q,
            cut_box(maps_.steps.q, panel * kDense.panel_columns(), {first.row + row, first.batch},
                    rows_below(seq_q, row, 64), tile.head),
            smem_.q_full(q_.stage));
      }
    }
  }

  /// The first key of this lane's piece.
  __device__ __forceinline__ int piece_key(int step) const {
    return kv_tile_at(step, tiles_, backward_) * C.tile_n + lane_ * C.piece_rows;
  }
  /// The page of this lane's piece; of one that no row sees, which is not looked up, any.
  __device__ __forceinline__ int page_of(int step) const {
    if constexpr (C.has_pages()) {
      const int key = piece_key(step);
      return step < tiles_ && lane_ < C.pieces() && key < keys_end_ ? pages_[split_.page(key)] : 0;
    }
    return 0;
  }

  __device__ __forceinline__ void load_k(int step, int page) {
    ptx::mbarrier_wait(smem_.k_empty(k_.stage), k_.parity ^ 1);
    load_tile(smem_.k(k_.stage), maps_.k, maps_.steps.k, step, page, smem_.k_full(k_.stage));
    k_.advance();
  }
  __device__ __forceinline__ void load_v(int step, int page) {
    ptx::mbarrier_wait(smem_.v_empty(v_.stage), v_.parity ^ 1);
    load_tile(smem_.v(v_.stage), maps_.v, maps_.steps.v, step, page, smem_.v_full(v_.stage));
    v_.advance();
  }
  __device__ __forceinline__ void load_tile(unsigned shared, const TensorMap& map, MapSteps steps,
                                            int step, int page, unsigned barrier) {
    if (lane_ == 0) {
      ptx::mbarrier_arrive_expect_tx(barrier, kDense.kv_tile_bytes());
    }
    __syncwarp();
    const CutPlace own = place_of_piece(steps, step, page);
#pragma unroll 4
    for (int piece = 0; piece < C.pieces(); ++piece) {
      const CutPlace place = of_lane(own, piece);
      if (lane_ == 0) {
#pragma unroll
        for (int panel = 0; panel < kDense.panels(); ++panel) {
          ptx::cp_async_bulk_tensor_5d_global_to_shared(
              shared + panel * kKvPanelBytes + piece * C.piece_rows * kLine, map,
              {panel * kDense.panel_columns(), place.cut, place.row, kv_head_, kCutLength},
              barrier);
        }
      }
    }
    __syncwarp();
  }
  /// Of this lane. Rows that no query of the Q tile sees are cut off.
  __device__ __forceinline__ CutPlace place_of_piece(MapSteps steps, int step, int page) const {
    const int key = piece_key(step);
    const int live = rows_below(keys_end_, key, C.piece_rows);
    if constexpr (C.has_pages()) {
      return cut_place(steps, page, key - split_.page(key) * split_.page_size, live);
    } else {
      return cut_place(steps, first_.batch, first_.row + key, live);
    }
  }
  /// What the lane of a piece has.
  __device__ __forceinline__ static CutPlace of_lane(const CutPlace& own, int lane) {
    if constexpr (C.pieces() == 1) {
      return {hopper::uniform(static_cast<unsigned>(own.cut)),
              hopper::uniform(static_cast<unsigned>(own.row))};
    } else {
      return {__shfl_sync(0xffffffffU, own.cut, lane), __shfl_sync(0xffffffffU, own.row, lane)};
    }
  }

  hopper::SharedMemory<kDense> smem_;
  const ItemMemory<C>& items_;
  const HopperMaps& maps_;
  int lane_;
  int iteration_ = 0;
  int tiles_ = 0;
  int keys_end_ = 0;
  int kv_head_ = 0;
  bool backward_ = false;
  RowPlace first_ = {};  ///< Of the keys, unless they lie in pages.
  const int* pages_ = nullptr;
  PageSplit split_ = {};
  FoundPosition<C> found_;
  hopper::RingPosition<kDense.q_slots()> q_;
  hopper::RingPosition<C.stages> k_;
  hopper::RingPosition<C.stages> v_;
};

}  // namespace swr::serving
