// SPDX-License-Identifier: MIT
// Appends new rows to the caches of K and V, with rotary embedding, and turns the queries: the
// first kernel of two in a row, of which attention is the second. Arithmetic is in fp32 and rounded
// once, to the type of the cache, before anybody uses the row: this step and later ones see the
// same K.
#pragma once

#include "attention_serving/octet.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include "common/smem_layout.h"
#include <swr/axes.h>
#include <swr/kv_append_params.h>

namespace swr::serving {

inline constexpr int kAppendThreads = 256;

/// A row of a sequence, counted within it.
struct SequenceRow {
  int sequence;
  int row;
};

/// The sequence whose rows `ends` (cu_seqlens) says hold row `row` of all, which has to be below
/// ends[batch]. Without `ends` every sequence has `rows` rows.
__device__ inline SequenceRow find_row(const int* ends, int batch, int rows, int row) {
  if (ends == nullptr) {
    return {row / rows, row % rows};
  }
  int low = 0;
  int high = batch - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (ends[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {low, row - ends[low]};
}

/// Turns pairs (a, b) of columns by their angles.
__device__ inline void turn(float& a, float& b, float cosine, float sine) {
  const float turned = fmaf(a, cosine, -(b * sine));
  b = fmaf(a, sine, b * cosine);
  a = turned;
}

/// Columns [octet * 8, octet * 8 + 8) of a row, and with separate halves those that they are turned
/// with, from `source` to `target`, turned by the angles of `position`.
template <DType Type>
class RowTurner {
 public:
  __device__ explicit RowTurner(const RotaryEmbedding& rotary) : rotary_(rotary) {}

  __device__ void operator()(const void* source, long long from, void* target, long long to,
                             int octet, int position) const {
    const int column = octet * kColumns;
    const int half = rotary_.dim / 2;
    if (rotary_.cos == nullptr || column >= rotary_.dim) {
      *octet_at(target, to + column) = *octet_at(source, from + column);
    } else if (rotary_.interleaved) {
      Octet row = unpacked<Type>(*octet_at(source, from + column));
      turn_neighbours(row, position, column / 2);
      *octet_at(target, to + column) = packed<Type>(row);
    } else if (column < half) {
      Octet left = unpacked<Type>(*octet_at(source, from + column));
      Octet right = unpacked<Type>(*octet_at(source, from + column + half));
      turn_halves(left, right, position, column);
      *octet_at(target, to + column) = packed<Type>(left);
      *octet_at(target, to + column + half) = packed<Type>(right);
    }  // The other half is the work of who has the first.
  }

 private:
  __device__ Octet angles(const void* table, int position, int pair) const {
    return unpacked<Type>(*octet_at(table, position * rotary_.stride + pair));
  }
  __device__ void turn_halves(Octet& left, Octet& right, int position, int pair) const {
    const Octet cosines = angles(rotary_.cos, position, pair);
    const Octet sines = angles(rotary_.sin, position, pair);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      turn(left.values[i], right.values[i], cosines.values[i], sines.values[i]);
    }
  }
  /// Four pairs, whose angles are half of 16 bytes.
  __device__ void turn_neighbours(Octet& row, int position, int pair) const {
    const int aligned = pair / kColumns * kColumns;
    const Octet cosines = angles(rotary_.cos, position, aligned);
    const Octet sines = angles(rotary_.sin, position, aligned);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const bool second = pair != aligned;
      turn(row.values[2 * i], row.values[2 * i + 1],
           second ? cosines.values[i + 4] : cosines.values[i],
           second ? sines.values[i + 4] : sines.values[i]);
    }
  }

  const RotaryEmbedding& rotary_;
};

/// The work of the launch, in octets: rows of K, then of V, then of Q, each row over all heads.
template <DType Type>
class Appender {
 public:
  __device__ explicit Appender(const KvAppendParams& params)
      : params_(params), attention_(params.attention), turn_(params.rotary) {}

  __device__ long long octets() const { return q_octets() + k_octets() + v_octets(); }

  __device__ void take(long long index) const {
    if (index < k_octets()) {
      append<true>(index, params_.head_dim);
    } else if (index < k_octets() + v_octets()) {
      append<false>(index - k_octets(), params_.head_dim_v);
    } else {
      turn_query(index - k_octets() - v_octets());
    }
  }

 private:
  __device__ int new_rows() const {
    const SequenceLengths& lengths = attention_.lengths;
    return lengths.cu_seqlens_k_new != nullptr ? lengths.cu_seqlens_k_new[attention_.batch]
                                               : attention_.batch * lengths.seq_k_new;
  }
  __device__ int queries() const {
    if (params_.q_rotated == nullptr) {
      return 0;
    }
    const int* const ends = attention_.lengths.cu_seqlens_q;
    return ends != nullptr ? ends[attention_.batch] : attention_.batch * attention_.max_seq_q;
  }
  __device__ long long k_octets() const {
    return static_cast<long long>(new_rows()) * attention_.heads_kv * (params_.head_dim / kColumns);
  }
  __device__ long long v_octets() const {
    return static_cast<long long>(new_rows()) * attention_.heads_kv *
           (params_.head_dim_v / kColumns);
  }
  __device__ long long q_octets() const {
    return static_cast<long long>(queries()) * attention_.heads_q * (params_.head_dim / kColumns);
  }

  /// Position of the first new row and of the first query of a sequence.
  __device__ int first_position(int sequence) const {
    const int* const given = params_.rotary.first_position;
    return given != nullptr ? given[sequence] : cached_rows(attention_, sequence);
  }

  template <bool IsK>
  __device__ void append(long long index, int columns) const {
    const int octets = columns / kColumns;
    const int octet = static_cast<int>(index % octets);
    const long long row_and_head = index / octets;
    const int head = static_cast<int>(row_and_head % attention_.heads_kv);
    const int row = static_cast<int>(row_and_head / attention_.heads_kv);
    const SequenceLengths& lengths = attention_.lengths;
    const SequenceRow place =
        find_row(lengths.cu_seqlens_k_new, attention_.batch, lengths.seq_k_new, row);
    const int cached = cached_rows(attention_, place.sequence);
    if (cached + place.row >= most_rows(attention_)) {
      return;
    }
    const TensorStrides& strides = IsK ? params_.k_new_strides : params_.v_new_strides;
    const bool ragged = lengths.cu_seqlens_k_new != nullptr;
    const long long from = (ragged ? 0 : place.sequence) * strides.batch + head * strides.head +
                           (ragged ? row : place.row) * strides.seq;
    if constexpr (IsK) {
      const long long to =
          cache_row(attention_.k_strides, place.sequence, cached + place.row, head);
      turn_(params_.k_new, from, const_cast<void*>(attention_.k), to, octet,
            first_position(place.sequence) + place.row);
    } else {
      const long long to =
          cache_row(attention_.v_strides, place.sequence, cached + place.row, head);
      *octet_at(const_cast<void*>(attention_.v), to + octet * kColumns) =
          *octet_at(params_.v_new, from + octet * kColumns);
    }
  }

  /// Where row `row` of a sequence's cache begins, in elements; left padding counts.
  __device__ long long cache_row(const TensorStrides& strides, int sequence, int row,
                                 int head) const {
    const PageTable& pages = attention_.pages;
    const SequenceLengths& lengths = attention_.lengths;
    long long container = sequence;
    if (pages.page_size > 0) {
      const int page = row / pages.page_size;
      container = pages.table != nullptr ? pages.table[sequence * pages.table_stride + page]
                                         : pages.indices[pages.indptr[sequence] + page];
      row -= page * pages.page_size;
    } else if (lengths.kv_batch_index != nullptr) {
      container = lengths.kv_batch_index[sequence];
    }
    return container * strides.batch + head * strides.head + row * strides.seq;
  }

  __device__ void turn_query(long long index) const {
    const int octets = params_.head_dim / kColumns;
    const int octet = static_cast<int>(index % octets);
    const long long row_and_head = index / octets;
    const int head = static_cast<int>(row_and_head % attention_.heads_q);
    const int row = static_cast<int>(row_and_head / attention_.heads_q);
    const int* const ends = attention_.lengths.cu_seqlens_q;
    const SequenceRow place = find_row(ends, attention_.batch, attention_.max_seq_q, row);
    if (place.row >= query_length(attention_, place.sequence)) {
      return;
    }
    const auto begin = [&](const TensorStrides& strides) {
      return (ends != nullptr ? 0 : place.sequence) * strides.batch + head * strides.head +
             (ends != nullptr ? row : place.row) * strides.seq;
    };
    const int position =
        first_position(place.sequence) + (params_.rotary.advances_queries ? place.row : 0);
    turn_(attention_.q, begin(attention_.q_strides), params_.q_rotated,
          begin(params_.q_rotated_strides), octet, position);
  }

  const KvAppendParams& params_;
  const ServingAttentionParams& attention_;
  RowTurner<Type> turn_;
};

/// The whole launch, of any number of CTAs of kAppendThreads threads.
template <DType Type>
__device__ inline void append_rows(const KvAppendParams& params) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();  // Attention may find its place; it waits for the rows.
  const Appender<Type> appender(params);
  const long long octets = appender.octets();
  const long long threads = static_cast<long long>(gridDim.x) * kAppendThreads;
  for (long long index = static_cast<long long>(blockIdx.x) * kAppendThreads + threadIdx.x;
       index < octets; index += threads) {
    appender.take(index);
  }
}

}  // namespace swr::serving
