// SPDX-License-Identifier: MIT
// Which query rows a Q tile holds: those of one head, or with C.pack_gqa those of all query heads
// of one K and V head, so that K and V are read once for all of them.
#pragma once

#include "attention/config.h"
#include "attention/portable/softmax.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_params.h>

namespace swr::portable {

/// Query heads that share Q tiles.
template <PortableAttentionConfig C>
__device__ inline int packed_heads(const AttentionParams& params) {
  return C.pack_gqa ? params.heads_q / params.heads_kv : 1;
}

/// Heads of one batch item that have Q tiles of their own.
template <PortableAttentionConfig C>
__device__ inline int scheduled_heads(const AttentionParams& params) {
  return C.pack_gqa ? params.heads_kv : params.heads_q;
}

/// The K and V head of QTile::head.
template <PortableAttentionConfig C>
__device__ inline int kv_head_of(const AttentionParams& params, int head) {
  if constexpr (C.pack_gqa) {
    return head % params.heads_kv;
  } else {
    return head % params.heads_q / (params.heads_q / params.heads_kv);
  }
}

template <PortableAttentionConfig C>
__device__ inline SequenceShape sequence_shape(const AttentionParams& params) {
  return {params.seq_q, params.seq_kv, C.causal, packed_heads<C>(params)};
}

/// What the launch computes, read again from its parameters.
template <PortableAttentionConfig C>
__device__ inline WorkItems work_items(const AttentionParams& params) {
  const int rows = ptx::opaque(params.seq_q) * packed_heads<C>(params);
  return {ptx::opaque(params.batch) * scheduled_heads<C>(params), ceil_div(rows, C.tile_m),
          C.split_kv ? params.kv_splits : 1};
}

/// The rows of one head of a tensor.
__device__ inline GlobalRows head_rows(const void* tensor, const TensorStrides& strides, int batch,
                                       int head, int rows) {
  constexpr int kElementBytes = 2;
  const long long offset = batch * strides.batch + head * strides.head;
  return {const_cast<char*>(static_cast<const char*>(tensor)) + offset * kElementBytes,
          strides.seq * kElementBytes, rows};
}

/// The rows of Q or O that the Q tiles of `head`, as QTile counts heads, divide.
template <PortableAttentionConfig C>
__device__ inline auto query_rows(const void* tensor, const TensorStrides& strides,
                                  const AttentionParams& params, int head) {
  if constexpr (C.pack_gqa) {
    constexpr int kElementBytes = 2;
    const int heads = packed_heads<C>(params);
    const GlobalRows first = head_rows(tensor, strides, head / params.heads_kv,
                                       head % params.heads_kv * heads, params.seq_q);
    return PackedRows{first.base, first.row_stride_bytes, strides.head * kElementBytes, heads,
                      params.seq_q * heads};
  } else {
    return head_rows(tensor, strides, head / params.heads_q, head % params.heads_q, params.seq_q);
  }
}

/// How these rows end: what normalises them, and where their log-sum-exps go.
template <PortableAttentionConfig C>
class RowEnds {
 public:
  struct End {
    float factor;  ///< Numerators times V are multiplied with it.
    float shift;
    float sum;
  };

  __device__ RowEnds(const AttentionParams& params, int head)
      : params_(params),
        first_(params.lse == nullptr ? nullptr
                                     : params.lse + static_cast<long long>(head) *
                                                        packed_heads<C>(params) * params.seq_q) {}

  __device__ static End finish(int /*row*/, float shift, float sum) {
    return {inverse_sum(sum), shift, sum};
  }
  /// Requires: the row exists.
  __device__ void write_lse(int row, const End& end) const {
    if (first_ == nullptr) {
      return;
    }
    const float value = log_sum_exp(end.shift, end.sum);
    if constexpr (C.pack_gqa) {
      const int heads = packed_heads<C>(params_);
      first_[row % heads * static_cast<long long>(params_.seq_q) + row / heads] = value;
    } else {
      first_[row] = value;
    }
  }

 private:
  const AttentionParams& params_;
  float* first_;
};

/// Where the results of a Q tile go.
template <PortableAttentionConfig C>
struct TileTarget {
  using Rows = decltype(query_rows<C>(nullptr, TensorStrides{}, AttentionParams{}, 0));
  using Ends = RowEnds<C>;

  const AttentionParams& params;
  QTile tile;

  __device__ int first_row() const { return tile.index * C.tile_m; }
  __device__ int head_rows() const { return params.seq_q * packed_heads<C>(params); }
  __device__ Rows output_rows() const {
    return query_rows<C>(params.o, params.o_strides, params, tile.head);
  }
  __device__ Ends ends() const { return {params, tile.head}; }
};

}  // namespace swr::portable
