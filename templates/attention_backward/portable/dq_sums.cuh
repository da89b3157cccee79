// SPDX-License-Identifier: MIT
// dQ of a step of the pass over K and V tiles, dS K, and how the steps of all tiles add up: sums in
// fp32 that lie in global memory as threads hold them, so that every access of a warp is one piece.
#pragma once

#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "attention_backward/config.h"
#include "attention_backward/portable/key_work.cuh"
#include "attention_backward/portable/products.cuh"
#include "attention_backward/schedule.h"
#include "common/ptx.cuh"
#include "common/reduce_ptx.cuh"
#include <swr/attention_backward_params.h>

namespace swr::portable {

/// Writes two neighbouring elements that may lie at any multiple of `Alignment` bytes.
template <int Alignment>
__device__ inline void store_pair(char* global, unsigned pair) {
  if constexpr (Alignment >= 4) {
    *reinterpret_cast<unsigned*>(global) = pair;
  } else {
    auto* const elements = reinterpret_cast<unsigned short*>(global);
    elements[0] = static_cast<unsigned short>(pair);
    elements[1] = static_cast<unsigned short>(pair >> 16);
  }
}

/// Lane l of every four has had word i of row i and column l, and has that of row l and column i
/// after. All lanes of the warp.
__device__ inline void transpose_in_quad(unsigned (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const bool upper = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & distance) == 0) {
        const unsigned sent = upper ? words[i] : words[i + distance];
        const unsigned got = __shfl_xor_sync(0xffffffffU, sent, distance);
        words[i] = upper ? got : words[i];
        words[i + distance] = upper ? words[i + distance] : got;
      }
    }
  }
}

/// The share of a warp in the dQ of one Q tile. C is a KeyPassConfig or a HopperKeyPassConfig.
template <auto C>
class DqShare {
 public:
  static constexpr int kColumnWarps = C.warps / C.dq_row_warps();

  /// `head` counts the query heads of the batch.
  __device__ DqShare(const AttentionBackwardParams& params, int head, int q_tile)
      : DqShare(params, head, q_tile, static_cast<int>(threadIdx.x / 32)) {}
  __device__ DqShare(const AttentionBackwardParams& params, int head, int q_tile, int warp)
      : params_(params), head_(head), q_tile_(q_tile), warp_(warp) {}

  /// First row and column of the share in its tile.
  __device__ int row() const { return warp_ / kColumnWarps * 16 * C.dq_blocks(); }
  __device__ int column() const { return warp_ % kColumnWarps * C.dq_columns(); }

  /// The lane's part of fragment `index`: of its four sums, one after the other, or with 32 lanes
  /// between them.
  __device__ float* sums(int index) const {
    return params_.dq_sums + warp_index() * (C.dq_fragments() * kFragmentFloats) +
           index * kFragmentFloats + lane() * (kTogether ? 4 : 1);
  }
  __device__ unsigned* turn() const { return params_.turns + warp_index(); }

  __device__ void add(int index, const float (&values)[4]) const {
    if constexpr (C.wide_adds) {
      ptx::red_add_v4_f32(sums(index), make_float4(values[0], values[1], values[2], values[3]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        ptx::red_add_f32(sums(index) + 32 * i, values[i]);
      }
    }
  }
  /// The warp sets a fragment to 0, in whatever order it lies.
  __device__ void clear(int index) const {
    float* const first = sums(index) - lane() * (kTogether ? 4 : 1);
    *reinterpret_cast<float4*>(first + 4 * lane()) = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
  /// Whether group `n` of columns is one of the share's and no padding.
  __device__ bool has_group(int n) const {
    return n < C.dq_columns() / 8 && column() + 8 * n < C.head_dim;
  }
  /// What additions have left.
  __device__ void read(int index, float (&values)[4]) const {
    if constexpr (kTogether) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(sums(index)));
      values[0] = four.x;
      values[1] = four.y;
      values[2] = four.z;
      values[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = __ldcg(sums(index) + 32 * i);
      }
    }
  }
  /// Adds to what is there, unless this is the first turn.
  __device__ void take_up(int index, float (&values)[4], bool first) const {
    if (!first) {
      const float4 held = __ldcg(reinterpret_cast<const float4*>(sums(index)));
      values[0] = held.x + values[0];
      values[1] = held.y + values[1];
      values[2] = held.z + values[2];
      values[3] = held.w + values[3];
    }
  }
  __device__ void leave(int index, const float (&values)[4]) const {
    __stcg(reinterpret_cast<float4*>(sums(index)),
           make_float4(values[0], values[1], values[2], values[3]));
  }

  /// Writes dQ of a fragment: block `m` of rows, group `n` of columns.
  __device__ void write(int m, int n, const float (&values)[4]) const {
    const int at = (column() + 8 * n + lane() % 4 * 2) * kElementBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row_of(m, half) < params_.seq_q) {
        store_pair<C.alignment_bytes>(dq_rows().address(row_of(m, half)) + at,
                                      rounded(values, half));
      }
    }
  }
  /// The same for groups [n, n + 4), of which a lane writes one: eight columns of a row.
  __device__ void write_four(int m, int n, const float (&values)[4][4]) const {
    const int own = n + lane() % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = rounded(values[i], half);
      }
      transpose_in_quad(words);
      if (row_of(m, half) < params_.seq_q && has_group(own)) {
        copy_out<kDqRows>(dq_rows().address(row_of(m, half)) + (column() + 8 * own) * kElementBytes,
                          make_uint4(words[0], words[1], words[2], words[3]));
      }
    }
  }

 private:
  static constexpr int kElementBytes = 2;
  static constexpr int kFragmentFloats = 128;
  static constexpr PortableAttentionConfig kDqRows =
      backward::rows_config(C.head_dim, C.warps, C.alignment_bytes, C.smem_swizzle);
  static constexpr bool kTogether = C.dq_sum == DqSum::ordered || C.wide_adds;

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ long long warp_index() const {
    const int q_tiles = ceil_div(params_.seq_q, C.tile_m);
    return (static_cast<long long>(head_) * q_tiles + q_tile_) * C.warps + warp_;
  }
  __device__ GlobalRows dq_rows() const {
    return head_rows(params_.dq, params_.dq_strides, head_ / params_.heads_q,
                     head_ % params_.heads_q, params_.seq_q);
  }
  /// The lane's row of half `half` of block `m`, and two of its columns there.
  __device__ int row_of(int m, int half) const {
    return q_tile_ * C.tile_m + row() + 16 * m + 8 * half + lane() / 4;
  }
  __device__ unsigned rounded(const float (&values)[4], int half) const {
    return ptx::cvt_rn_x2<C.dtype>(values[2 * half] * params_.scale,
                                   values[2 * half + 1] * params_.scale);
  }

  const AttentionBackwardParams& params_;
  int head_;
  int q_tile_;
  int warp_;
};

/// Columns [first, first + dq_piece_columns) of the warp's share of dS K.
template <KeyPassConfig C>
using DqPiece = Sums<C.dq_blocks(), C.dq_piece_columns() / 8>;

template <KeyPassConfig C>
__device__ inline void multiply_ds_k(DqPiece<C>& dq, unsigned smem, int first_row,
                                     int first_column) {
  constexpr int kPairs = C.dq_piece_columns() / 16;
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Transposed matrices 0..3: (keys 0-7, rows 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  const LaneOffset<C.scores_layout()> place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const ColumnSpan<C.k_layout(), kPairs> k(smem + C.k_offset(), first_column / 8);
  unsigned rows[C.dq_blocks()];
#pragma unroll
  for (int m = 0; m < C.dq_blocks(); ++m) {
    rows[m] = place.at(smem + C.ds_offset(), 0, first_row / 8 + 2 * m);
  }
  clear(dq);
#pragma unroll
  for (int step = 0; step < C.tile_n / 16; ++step) {
    constexpr TileLayout kPlain{C.tile_n, C.scores_layout().panel_chunks, false};
    OperandA<C.dq_blocks()> left;
#pragma unroll
    for (int m = 0; m < C.dq_blocks(); ++m) {
      ptx::ldmatrix_x4_trans(left[m], rows[m] + static_cast<unsigned>(kPlain.offset(16 * step, 0)));
    }
    multiply_columns<C.dtype>(dq, left, k, 16 * step);
  }
}

/// The turn of an item's tile in the additions to a Q tile, and whether nobody comes after.
struct Turn {
  int number;
  bool last;
};

template <auto C>
__device__ inline backward::Relay relay_of(const AttentionBackwardParams& params) {
  static_assert(C.order != QOrder::rotated);
  return {params.last_kv_first != 0, ceil_div(params.seq_kv, C.tile_n), params.bands};
}

/// `turns` are those of the item's tile.
template <auto C>
__device__ inline Turn turn_at(const backward::Turns& turns, const KeyWork& work, int q_tile) {
  const int contributors = backward::kv_tiles_of(q_tile, C.tile_m, C.tile_n, work.shape);
  const int number = turns.at(contributors);
  return {number, number == contributors - 1};
}

/// Takes the sums over from the tile whose turn came before, adds a piece, and leaves them to the
/// next, or writes dQ. Warps hand over to the same warp of the next CTA: they hold the same places.
template <KeyPassConfig C>
__device__ inline void add_in_turn(const DqShare<C>& share, DqPiece<C>& dq, int piece, Turn turn) {
#pragma unroll
  for (int m = 0; m < C.dq_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.dq_piece_columns() / 8; ++n) {
      const int group = piece * (C.dq_piece_columns() / 8) + n;
      const int index = m * (C.dq_columns() / 8) + group;
      share.take_up(index, dq[m][n], turn.number == 0);
      if (turn.last) {
        share.write(m, group, dq[m][n]);
      } else {
        share.leave(index, dq[m][n]);
      }
    }
  }
}

/// Computes dQ of a step and adds it to the sums. Requires: dS has been stored by all.
template <KeyPassConfig C>
__device__ inline void add_to_dq(const AttentionBackwardParams& params, unsigned smem,
                                 const KeyWork& work, backward::Place at) {
  const DqShare<C> share(params, batch_head(params, work, at.group_head), at.q_tile);
  constexpr int kPieces = C.dq_columns() / C.dq_piece_columns();
  Turn turn{};
  if constexpr (C.dq_sum == DqSum::ordered) {
    turn = turn_at<C>(backward::turns_of(work.tile, relay_of<C>(params)), work, at.q_tile);
  }
#pragma unroll 1
  for (int piece = 0; piece < kPieces; ++piece) {
    DqPiece<C> dq;
    multiply_ds_k<C>(dq, smem, share.row(), share.column() + piece * C.dq_piece_columns());
    if constexpr (C.dq_sum == DqSum::ordered) {
      if (piece == 0) {
        if (threadIdx.x % 32 == 0) {
          ptx::ld_acquire_until(share.turn(), static_cast<unsigned>(turn.number));
        }
        __syncwarp();
      }
      add_in_turn<C>(share, dq, piece, turn);
    } else {
#pragma unroll
      for (int m = 0; m < C.dq_blocks(); ++m) {
#pragma unroll
        for (int n = 0; n < C.dq_piece_columns() / 8; ++n) {
          share.add(m * (C.dq_columns() / 8) + piece * (C.dq_piece_columns() / 8) + n, dq[m][n]);
        }
      }
    }
  }
  if constexpr (C.dq_sum == DqSum::ordered) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      ptx::st_release(share.turn(), static_cast<unsigned>(turn.number + 1));
    }
  }
}

}  // namespace swr::portable
