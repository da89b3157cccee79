// SPDX-License-Identifier: MIT
// The warp that keeps the copy engine busy and runs ahead of the consumers as far as the rings
// allow, also into the next Q tile. Each lane has a piece of every K and V tile, whose page it
// looks up a tile ahead and whose place it works out; one elected lane asks for all of them: copies
// are instructions that the compiler repeats for every lane that may be there.
#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention_serving/hopper/memory.cuh"
#include "attention_serving/hopper/piece_copy.cuh"
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
        const int page_after = page_of(step + 1);
        load_k(step, next_page);
        load_v(step - 1, page);
        page = next_page;
        next_page = page_after;
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
    keys_ = item.keys();
    kv_head_ = item.kv_head();
    if constexpr (C.has_window()) {
      first_tile_ = item.kv_tiles().first;
    }
    if constexpr (C.has_whole_boxes()) {
      bases_ = item.bases();
    }
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
    const int tile = (C.has_window() ? first_tile_ : 0) + kv_tile_at(step, tiles_, backward_);
    return tile * C.tile_n + lane_ * C.piece_rows;
  }
  /// The rows of the piece that begins at `key` which some query of the Q tile sees; there are none
  /// where end is not above first.
  __device__ __forceinline__ KeyRange live_rows(int key) const {
    return {C.has_window() ? rows_below(keys_.first, key, C.piece_rows) : 0,
            rows_below(keys_.end, key, C.piece_rows)};
  }
  /// The page of this lane's piece; of one that no row sees, which is not looked up, any.
  __device__ __forceinline__ int page_of(int step) const {
    if constexpr (C.has_pages()) {
      const int key = piece_key(step);
      const KeyRange live = live_rows(key);
      return step < tiles_ && lane_ < C.pieces() && live.first < live.end ? pages_[split_.page(key)]
                                                                          : 0;
    }
    return 0;
  }

  __device__ __forceinline__ void load_k(int step, int page) {
    ptx::mbarrier_wait(smem_.k_empty(k_.stage), k_.parity ^ 1);
    load_tile({maps_.k, maps_.steps.k, bases_.k, items_.params.k_strides}, smem_.k(k_.stage), step,
              page, smem_.k_full(k_.stage));
    k_.advance();
  }
  __device__ __forceinline__ void load_v(int step, int page) {
    ptx::mbarrier_wait(smem_.v_empty(v_.stage), v_.parity ^ 1);
    load_tile({maps_.v, maps_.steps.v, bases_.v, items_.params.v_strides}, smem_.v(v_.stage), step,
              page, smem_.v_full(v_.stage));
    v_.advance();
  }

  /// K or V.
  struct Operand {
    const TensorMap& map;
    MapSteps steps;
    const char* base;
    const TensorStrides& strides;
  };
  __device__ __forceinline__ void load_tile(const Operand& operand, unsigned shared, int step,
                                            int page, unsigned barrier) {
    if constexpr (C.has_whole_boxes()) {
      load_octets(operand, shared, step, page, barrier);
    } else {
      load_panels(operand, shared, step, page, barrier);
    }
    __syncwarp();
  }

  /// Pieces that one lane asks for in a row, whose places it has got from the others before.
  SWR_HD static constexpr int in_a_row() {
    int count = min_of(8, C.pieces());
    while (C.pieces() % count != 0) {
      --count;
    }
    return count;
  }

  /// A box for every panel of every piece. Rows that no query of the Q tile sees are cut off.
  __device__ __forceinline__ void load_panels(const Operand& operand, unsigned shared, int step,
                                              int page, unsigned barrier) {
    const CutPlace own = place_of_piece(operand.steps, step, page);
#pragma unroll 1
    for (int first = 0; first < C.pieces(); first += in_a_row()) {
      CutPlace places[in_a_row()];
#pragma unroll
      for (int i = 0; i < in_a_row(); ++i) {
        places[i] = {__shfl_sync(0xffffffffU, own.cut, first + i),
                     __shfl_sync(0xffffffffU, own.row, first + i)};
      }
      if (ptx::elect_sync()) {
        if (first == 0) {
          ptx::mbarrier_arrive_expect_tx(barrier, kDense.kv_tile_bytes());
        }
#pragma unroll
        for (int i = 0; i < in_a_row(); ++i) {
#pragma unroll
          for (int panel = 0; panel < kDense.panels(); ++panel) {
            ptx::cp_async_bulk_tensor_5d_global_to_shared(
                shared + panel * kKvPanelBytes + (first + i) * C.piece_rows * kLine, operand.map,
                {panel * kDense.panel_columns(), places[i].cut, places[i].row, kv_head_,
                 kCutLength},
                barrier);
          }
        }
      }
    }
  }
  /// Of this lane.
  __device__ __forceinline__ CutPlace place_of_piece(MapSteps steps, int step, int page) const {
    const int key = piece_key(step);
    const RowPlace first = first_row(key, page);
    return cut_place(steps, first.batch, first.row, live_rows(key).end);
  }
  /// The piece's first row, and the page or the batch item that it is in.
  __device__ __forceinline__ RowPlace first_row(int key, int page) const {
    if constexpr (C.has_pages()) {
      return {key - split_.page(key) * split_.page_size, page};
    } else {
      return {first_.row + key, first_.batch};
    }
  }

  /// A box for every piece. Those that no query sees read as zeros; of which some rows are cut off,
  /// all lanes copy themselves.
  __device__ __forceinline__ void load_octets(const Operand& operand, unsigned shared, int step,
                                              int page, unsigned barrier) {
    constexpr int kOutside = -1;
    const int key = piece_key(step);
    const KeyRange live = live_rows(key);
    const RowPlace first = first_row(key, page);
    const MapSteps& steps = operand.steps;
    const int own = live.first < live.end ? first.batch * steps.container + first.row * steps.row +
                                                kv_head_ * steps.head
                                          : kOutside;
    const unsigned cut = ptx::vote_ballot(lane_ < C.pieces() && live.first < live.end &&
                                          live.end - live.first < C.piece_rows);
    if (cut != 0) {
      copy_cut_pieces(operand, shared, cut, key, page);
      load_whole_pieces<1>(operand, shared, own, cut, barrier);
    } else {
      load_whole_pieces<in_a_row()>(operand, shared, own, 0, barrier);
    }
  }
  /// All but those whose bit is set in `cut`.
  template <int InARow>
  __device__ __forceinline__ void load_whole_pieces(const Operand& operand, unsigned shared,
                                                    int own, unsigned cut, unsigned barrier) {
#pragma unroll 1
    for (int first = 0; first < C.pieces(); first += InARow) {
      int places[InARow];
#pragma unroll
      for (int i = 0; i < InARow; ++i) {
        places[i] = __shfl_sync(0xffffffffU, own, first + i);
      }
      if (ptx::elect_sync()) {
        if (first == 0) {
          ptx::mbarrier_arrive_expect_tx(barrier,
                                         kDense.kv_tile_bytes() - __popc(cut) * C.piece_bytes());
        }
#pragma unroll
        for (int i = 0; i < InARow; ++i) {
          if (InARow > 1 || (cut >> first & 1) == 0) {
            ptx::cp_async_bulk_tensor_5d_global_to_shared(shared + (first + i) * C.piece_bytes(),
                                                          operand.map, places[i], barrier);
          }
        }
      }
      __syncwarp();
    }
  }
  __device__ __forceinline__ void copy_cut_pieces(const Operand& operand, unsigned shared,
                                                  unsigned cut, int own_key, int own_page) const {
#pragma unroll 1
    for (int piece = 0; piece < C.pieces(); ++piece) {
      if ((cut >> piece & 1) == 0) {
        continue;
      }
      const int key = __shfl_sync(0xffffffffU, own_key, piece);
      const int page = __shfl_sync(0xffffffffU, own_page, piece);
      const RowPlace first = first_row(key, page);
      // The base of rows is that of the sequence's first.
      const long long offset = C.has_pages()
                                   ? page * operand.strides.batch + first.row * operand.strides.seq
                                   : key * operand.strides.seq;
      copy_piece<C>(shared + piece * C.piece_bytes(), operand.base + offset * kElementBytes,
                    operand.strides.seq * kElementBytes, live_rows(key), lane_);
    }
    ptx::fence_proxy_async();
    __syncwarp();
  }

  hopper::SharedMemory<kDense> smem_;
  const ItemMemory<C>& items_;
  const HopperMaps& maps_;
  int lane_;
  int iteration_ = 0;
  int tiles_ = 0;
  KeyRange keys_;
  int first_tile_ = 0;
  int kv_head_ = 0;
  bool backward_ = false;
  KvBases bases_ = {};   ///< Of the item's head; for whole boxes.
  RowPlace first_ = {};  ///< Of the keys, unless they lie in pages.
  const int* pages_ = nullptr;
  PageSplit split_ = {};
  FoundPosition<C> found_;
  hopper::RingPosition<kDense.q_slots()> q_;
  hopper::RingPosition<C.stages> k_;
  hopper::RingPosition<C.stages> v_;
};

}  // namespace swr::serving
