// SPDX-License-Identifier: MIT
// The parameter block of the kernel that appends new rows to the caches of K and V ahead of
// attention, in the same call: rotary embedding of them and of the queries included. Self-contained
// plain data.
#pragma once

#include <swr/serving_attention_params.h>

namespace swr {

/// Rotary embedding of the first `dim` columns of a row (Su et al., "RoFormer", section 3.2): pairs
/// of columns are turned by an angle that depends on the pair and on the row's position.
struct RotaryEmbedding {
  /// [positions, dim / 2] each, of the tensors' type, the last dimension contiguous, rows `stride`
  /// elements apart and aligned to 16 bytes. Null: rows are copied as they are.
  const void* cos = nullptr;
  const void* sin = nullptr;
  long long stride = 0;
  int dim = 0;  ///< A multiple of 16, at most head_dim.
  /// Pairs are columns 2i and 2i + 1; else i and i + dim / 2.
  bool interleaved = false;
  /// [batch] on the device: the position of a sequence's first new row and of its first query.
  /// Null: the number of rows that its cache holds, left padding included.
  const int* first_position = nullptr;
  /// Queries stand one after another, as with a mask; else all at the first position.
  bool advances_queries = true;
};

/// Row j of k_new and v_new of sequence i goes to row cached_rows + j of its cache, where
/// `attention` says how many rows are cached, how many are new and where they lie. Rows that there
/// is no room for are left out.
struct KvAppendParams {
  ServingAttentionParams attention;  ///< Its q is read, its k and v are written.
  const void* k_new =
      nullptr;  ///< [batch, heads_kv, seq_k_new, head_dim], or rows as cu_seqlens_k_new has them.
  const void* v_new = nullptr;
  TensorStrides k_new_strides;
  TensorStrides v_new_strides;
  long long total_k_new = 0;  ///< Rows of k_new over the batch, at most: a bound, for the launch.
  int head_dim = 0;
  int head_dim_v = 0;
  RotaryEmbedding rotary;
  /// Where turned queries go, for attention to read; null when there is no embedding. q itself is
  /// the caller's and stays.
  void* q_rotated = nullptr;
  TensorStrides q_rotated_strides;
};

}  // namespace swr
