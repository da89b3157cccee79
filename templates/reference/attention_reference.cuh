// SPDX-License-Identifier: MIT
// The fp32 reference that variants are checked against. It shares nothing with the tuned kernels
// but the parameter block: plain loops over fp32 values in shared memory, no tensor cores, and two
// passes over the keys (first the softmax statistics, then the weighted sum of V) instead of a
// rescaled running output.
//
// One CTA computes kRows query rows of one head and meets kKeys keys at a time. Every thread owns 8
// x 8 scores of such a tile, and 8 x 8 elements of the product with V, so that four vector loads
// from shared memory feed 64 multiplications. O is written in fp32, [batch, heads_q, seq_q,
// head_dim] contiguous and aligned to 16 bytes, whatever o_strides says; lse as AttentionParams
// describes. head_dim is a multiple of 4.
#pragma once

#include "reference/launch_shape.h"
#include <swr/annotations.h>
#include <swr/attention_params.h>
#include <swr/axes.h>

namespace swr::reference {
namespace {

constexpr int kSide = 16;               ///< Threads along the rows and along the keys of a tile.
constexpr int kOwn = kRows / kSide;     ///< Rows of a thread, and keys.
constexpr int kVector = 4;              ///< Floats loaded at once.
constexpr int kSpan = kSide * kVector;  ///< Columns of O that the threads cover with a vector each.
constexpr float kLn2 = 0.693147180559945309F;
static_assert(kOwn * kSide == kKeys && kSide * kSide == kThreads && kSpan == kDepth &&
              kSliceColumns == 2 * kSpan);

__device__ inline float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000U)); }

/// What to compute.
struct Task {
  const AttentionParams& params;
  DType dtype;
  bool causal;
  int head_dim;
};

/// The part of it that a CTA computes.
struct Block {
  int batch;
  int head_q;
  int head_kv;
  int first_row;
  /// Keys [0, keys) may be visible to some row of the block.
  int keys;
};

/// The last rows of a head come first: under a causal mask they take longest.
__device__ inline Block block_of(const Task& task) {
  const AttentionParams& params = task.params;
  const int blocks_per_head = (params.seq_q + kRows - 1) / kRows;
  const int head = static_cast<int>(blockIdx.x) / blocks_per_head;
  const int before = static_cast<int>(blockIdx.x) % blocks_per_head;
  Block block;
  block.batch = head / params.heads_q;
  block.head_q = head % params.heads_q;
  block.head_kv = block.head_q / (params.heads_q / params.heads_kv);
  block.first_row = (blocks_per_head - 1 - before) * kRows;
  block.keys = params.seq_kv;
  if (task.causal) {
    const int end = block.first_row + kRows < params.seq_q ? block.first_row + kRows : params.seq_q;
    const int visible = end + params.seq_kv - params.seq_q;
    block.keys = visible < 0 ? 0 : visible;
  }
  return block;
}

/// What a thread owns: rows row + 16 i of the block, keys column + 16 j of a tile, and of every 64
/// columns of O the four from 4 column.
struct Place {
  int row;
  int column;
};

/// A warp has two rows of 16 threads, which alternate: in every load of vectors lanes next to each
/// other, or two apart, ask for the same address, and shared memory serves them together.
__device__ inline Place place_of_thread() {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  return {static_cast<int>(2 * warp + lane % 2), static_cast<int>(lane / 2)};
}

/// fp16 in the upper half of a word. With exponent and fraction moved to fp32's places the value is
/// too small by 2^112, subnormal numbers included, and what was infinite or NaN has come to 2^16
/// and more.
__device__ inline float decode_fp16(unsigned upper) {
  const unsigned moved = static_cast<unsigned>(static_cast<int>(upper) >> 3) & 0x8fffe000U;
  const float value = __uint_as_float(moved) * 0x1p112F;
  return fabsf(value) < 0x1p16F ? value : __uint_as_float(__float_as_uint(value) | 0x7f800000U);
}

__device__ inline float4 decode(uint2 bits, DType dtype) {
  const uint4 upper =
      make_uint4(bits.x << 16, bits.x & 0xffff0000U, bits.y << 16, bits.y & 0xffff0000U);
  if (dtype == DType::bf16) {
    return make_float4(__uint_as_float(upper.x), __uint_as_float(upper.y), __uint_as_float(upper.z),
                       __uint_as_float(upper.w));
  }
  return make_float4(decode_fp16(upper.x), decode_fp16(upper.y), decode_fp16(upper.z),
                     decode_fp16(upper.w));
}

/// The rows of one head of a tensor.
struct Rows {
  const unsigned short* first;
  long long stride;
  int count;
  int columns;
  DType dtype;
  bool aligned;  ///< Vectors are.
};

__device__ inline Rows rows_of(const void* tensor, const TensorStrides& strides, int batch,
                               int head, int count, const Task& task) {
  const unsigned short* const first =
      static_cast<const unsigned short*>(tensor) + batch * strides.batch + head * strides.head;
  const bool aligned =
      reinterpret_cast<unsigned long long>(first) % 8 == 0 && strides.seq % kVector == 0;
  return {first, strides.seq, count, task.head_dim, task.dtype, aligned};
}

template <bool Aligned>
__device__ inline uint2 load_bits(const unsigned short* source) {
  if (Aligned) {
    return *reinterpret_cast<const uint2*>(source);
  }
  return make_uint2(source[0] | static_cast<unsigned>(source[1]) << 16,
                    source[2] | static_cast<unsigned>(source[3]) << 16);
}

/// Vectors of a column, so many rows apart; 0 past the last of the rows.
template <bool Aligned, int RowsApart, int Count>
__device__ inline void load_column(uint2 (&bits)[Count], const Rows& rows, int row, int column) {
  const int rows_left = column < rows.columns ? rows.count - row : 0;
  long long element = row * rows.stride + column;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    bits[i] =
        i * RowsApart < rows_left ? load_bits<Aligned>(rows.first + element) : make_uint2(0U, 0U);
    element += RowsApart * rows.stride;
  }
}

/// Copies kDepth columns of so many rows to shared memory as fp32; what is past the end of the head
/// becomes 0. A thread loads all of its vectors before it awaits the first. The threads of a
/// warp store to successive addresses.
template <int RowCount, int Stride>
__device__ inline void stage(float* tile, const Rows& rows, int first_row, int first_column) {
  constexpr int kVectors = kDepth / kVector;
  constexpr int kRowsApart = kThreads / kVectors;
  constexpr int kCount = RowCount / kRowsApart;
  static_assert(kCount * kRowsApart == RowCount);
  const int row = static_cast<int>(threadIdx.x / kVectors);
  const int column = static_cast<int>(threadIdx.x % kVectors * kVector);
  float* const target = tile + row * Stride + column;
  uint2 bits[kCount];
  if (rows.aligned) {
    load_column<true, kRowsApart>(bits, rows, first_row + row, first_column + column);
  } else {
    load_column<false, kRowsApart>(bits, rows, first_row + row, first_column + column);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    *reinterpret_cast<float4*>(target + i * kRowsApart * Stride) = decode(bits[i], rows.dtype);
  }
}

__device__ inline void load(float (&values)[kVector], const float* source) {
  const float4 vector = *reinterpret_cast<const float4*>(source);
  values[0] = vector.x;
  values[1] = vector.y;
  values[2] = vector.z;
  values[3] = vector.w;
}

/// Maximum of a row's scores and the sum of 2^(score - maximum).
struct RowStatistics {
  float maximum;
  float sum;
};

/// What turns scores into probabilities: 2^(score - base) * factor.
struct Normalization {
  float base;
  float factor;
};

/// Shared memory of a CTA.
struct Tiles {
  float* q;                       ///< [kRows, kDepth], and
  float* k;                       ///< [kKeys, kDepth], which then make place for
  float* probabilities;           ///< [kRows, kKeys].
  float* v;                       ///< [kSliceKeys, kSliceColumns]; in the first pass
  RowStatistics* own_statistics;  ///< [kOwn, kThreads].
  Normalization* normalizations;  ///< [kRows].
  Block* block;
};
static_assert(kOwn * kThreads * sizeof(RowStatistics) <= 4 * kSliceKeys * kSliceColumns);
static_assert(sizeof(Block) <= 4 * kBlockFloats);

__device__ inline Tiles tiles_in(float* smem) {
  float* const v = smem + kScoreFloats;
  float* const normalizations = v + kSliceKeys * kSliceColumns;
  return {smem,
          smem + kRows * kDepthStride,
          smem,
          v,
          reinterpret_cast<RowStatistics*>(v),
          reinterpret_cast<Normalization*>(normalizations),
          reinterpret_cast<Block*>(normalizations + 2 * kRows)};
}

/// The scores of a tile that a thread owns.
using Scores = float[kOwn][kOwn];

/// Adds the products of a thread's rows and keys over the staged columns. `q` and `k` are the first
/// of these rows and keys.
__device__ inline void add_products(Scores& scores, const float* q, const float* k, int columns) {
  for (; columns > 0; columns -= kVector, q += kVector, k += kVector) {
    float keys[kOwn][kVector];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      load(keys[j], k + kSide * j * kDepthStride);
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      float row[kVector];
      load(row, q + kSide * i * kDepthStride);
#pragma unroll
      for (int column = 0; column < kVector; ++column) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          scores[i][j] += row[column] * keys[j][column];
        }
      }
    }
  }
}

/// Scales (log2 domain), and makes what is hidden minus infinity.
__device__ inline void scale_and_hide(Scores& scores, const Task& task, const Block& block,
                                      Place place, int first_key) {
  const AttentionParams& params = task.params;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = block.first_row + place.row + kSide * i;
    const int visible = task.causal ? row + 1 + params.seq_kv - params.seq_q : params.seq_kv;
    const int end = visible < params.seq_kv ? visible : params.seq_kv;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int key = first_key + place.column + kSide * j;
      scores[i][j] = key < end ? scores[i][j] * params.scale_log2 : minus_infinity();
    }
  }
}

/// A thread's scores of the block's rows and the keys from first_key. When it returns, other
/// threads may still read the tiles.
__device__ inline void compute_scores(Scores& scores, const Tiles& tiles, const Task& task,
                                      const Block& block, Place place, int first_key) {
  const AttentionParams& params = task.params;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      scores[i][j] = 0.0F;
    }
  }
  for (int first = 0; first < task.head_dim; first += kDepth) {
    __syncthreads();
    stage<kRows, kDepthStride>(
        tiles.q, rows_of(params.q, params.q_strides, block.batch, block.head_q, params.seq_q, task),
        block.first_row, first);
    stage<kKeys, kDepthStride>(
        tiles.k,
        rows_of(params.k, params.k_strides, block.batch, block.head_kv, params.seq_kv, task),
        first_key, first);
    __syncthreads();
    add_products(scores, tiles.q + place.row * kDepthStride, tiles.k + place.column * kDepthStride,
                 task.head_dim - first < kDepth ? task.head_dim - first : kDepth);
  }
  scale_and_hide(scores, task, block, place, first_key);
}

/// What scores are taken relative to: their maximum, but never minus infinity, which minus itself
/// would be NaN. A score of NaN or plus infinity makes the sum NaN.
__device__ inline float base_of(float maximum) {
  return maximum == minus_infinity() ? 0.0F : maximum;
}

__device__ inline RowStatistics with_scores(RowStatistics before, const float (&scores)[kOwn]) {
  float maximum = before.maximum;
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    maximum = fmaxf(maximum, scores[j]);
  }
  const float base = base_of(maximum);
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    sum += exp2f(scores[j] - base);
  }
  return {maximum, before.sum * exp2f(before.maximum - base) + sum};
}

/// Over the 16 threads of a row, which all get it.
__device__ inline RowStatistics over_row(RowStatistics statistics) {
  for (int distance = 2; distance < 32; distance *= 2) {
    const RowStatistics other{__shfl_xor_sync(0xffffffffU, statistics.maximum, distance),
                              __shfl_xor_sync(0xffffffffU, statistics.sum, distance)};
    const float maximum = fmaxf(statistics.maximum, other.maximum);
    const float base = base_of(maximum);
    statistics = {maximum, statistics.sum * exp2f(statistics.maximum - base) +
                               other.sum * exp2f(other.maximum - base)};
  }
  return statistics;
}

/// Rows without keys have hidden scores alone, of which every factor but infinity makes 0.
__device__ inline Normalization normalization_of(RowStatistics row) {
  return {base_of(row.maximum), row.sum == 0.0F ? 0.0F : 1.0F / row.sum};
}

__device__ inline void store_lse(RowStatistics statistics, const AttentionParams& params,
                                 const Block& block, int row) {
  if (params.lse != nullptr && row < params.seq_q) {
    const long long head = static_cast<long long>(block.batch) * params.heads_q + block.head_q;
    params.lse[head * params.seq_q + row] =
        statistics.sum == 0.0F ? minus_infinity()
                               : kLn2 * (statistics.maximum + log2f(statistics.sum));
  }
}

/// First pass. Every thread takes its own rows and keys together first; its statistics lie in
/// shared memory, because the scores and their factors fill the registers. The second pass meets
/// at barriers before it reads what others leave here.
__device__ inline void pass_statistics(const Tiles& tiles, const Task& task, const Block& block,
                                       Place place) {
  RowStatistics* const own = tiles.own_statistics + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    own[i * kThreads] = {minus_infinity(), 0.0F};
  }
  for (int first_key = 0; first_key < block.keys; first_key += kKeys) {
    Scores scores;
    compute_scores(scores, tiles, task, block, place, first_key);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      own[i * kThreads] = with_scores(own[i * kThreads], scores[i]);
    }
  }
  for (int i = 0; i < kOwn; ++i) {
    const RowStatistics row = over_row(own[i * kThreads]);
    if (place.column == 0) {
      tiles.normalizations[place.row + kSide * i] = normalization_of(row);
      store_lse(row, task.params, block, block.first_row + place.row + kSide * i);
    }
  }
}

/// Turns a thread's scores into probabilities.
__device__ inline void store_probabilities(const Tiles& tiles, const Scores& scores, Place place) {
  float* const first = tiles.probabilities + place.row * kScoreStride + place.column;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const auto [base, factor] = tiles.normalizations[place.row + kSide * i];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      first[kSide * i * kScoreStride + kSide * j] = exp2f(scores[i][j] - base) * factor;
    }
  }
}

/// Adds what the keys of a slice contribute to a thread's columns of O. `probabilities` are those
/// of its first row, `values` those of the first key from its first column.
template <int Vectors>
__device__ inline void add_weighted(float (&sums)[kOwn][Vectors][kVector],
                                    const float* probabilities, const float* values) {
  for (int first = 0; first < kSliceKeys; first += kVector, probabilities += kVector) {
    float weights[kOwn][kVector];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      load(weights[i], probabilities + kSide * i * kScoreStride);
    }
#pragma unroll
    for (int key = 0; key < kVector; ++key, values += kSliceColumns) {
#pragma unroll
      for (int j = 0; j < Vectors; ++j) {
        float value[kVector];
        load(value, values + kSpan * j);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
#pragma unroll
          for (int column = 0; column < kVector; ++column) {
            sums[i][j][column] += weights[i][key] * value[column];
          }
        }
      }
    }
  }
}

/// A thread's columns of the block's rows of O, from first_column, with `change(vector)` each.
template <int Vectors, typename Change>
__device__ inline void for_each_output(const Task& task, const Block& block, Place place,
                                       int first_column, const Change& change) {
  const AttentionParams& params = task.params;
  const long long head = static_cast<long long>(block.batch) * params.heads_q + block.head_q;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = block.first_row + place.row + kSide * i;
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      const int column = first_column + kSpan * j + kVector * place.column;
      if (row < params.seq_q && column < task.head_dim) {
        float* const o = static_cast<float*>(params.o);
        change(*reinterpret_cast<float4*>(o + (head * params.seq_q + row) * task.head_dim + column),
               i, j);
      }
    }
  }
}

/// Adds the product of a tile's probabilities and V to columns of O. A tile is summed up before it
/// is added, so that errors do not grow with every key.
template <int Vectors>
__device__ inline void add_tile(const Tiles& tiles, const Task& task, const Block& block,
                                Place place, int first_key, int first_column) {
  const AttentionParams& params = task.params;
  const Rows v =
      rows_of(params.v, params.v_strides, block.batch, block.head_kv, params.seq_kv, task);
  float sums[kOwn][Vectors][kVector] = {};
  for (int first = 0; first < kKeys && first_key + first < block.keys; first += kSliceKeys) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < Vectors; ++j) {
      stage<kSliceKeys, kSliceColumns>(tiles.v + kSpan * j, v, first_key + first,
                                       first_column + kSpan * j);
    }
    __syncthreads();
    add_weighted(sums, tiles.probabilities + place.row * kScoreStride + first,
                 tiles.v + kVector * place.column);
  }
  for_each_output<Vectors>(task, block, place, first_column, [&](float4& o, int i, int j) {
    const float(&sum)[kVector] = sums[i][j];
    o = make_float4(o.x + sum[0], o.y + sum[1], o.z + sum[2], o.w + sum[3]);
  });
}

/// Second pass: O = P V.
__device__ inline void pass_output(const Tiles& tiles, const Task& task, const Block& block,
                                   Place place) {
  for (int column = 0; column < task.head_dim; column += kSpan) {
    for_each_output<1>(task, block, place, column, [](float4& o, int /*i*/, int /*j*/) {
      o = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    });
  }
  for (int first_key = 0; first_key < block.keys; first_key += kKeys) {
    Scores scores;
    compute_scores(scores, tiles, task, block, place, first_key);
    __syncthreads();
    store_probabilities(tiles, scores, place);
    for (int column = 0; column < task.head_dim; column += kSliceColumns) {
      if (task.head_dim - column <= kSpan) {
        add_tile<1>(tiles, task, block, place, first_key, column);
      } else {
        add_tile<2>(tiles, task, block, place, first_key, column);
      }
    }
  }
}

/// The work of a CTA with kSmemBytes of shared memory at `smem`. What it works on lies there too:
/// what the compiler derives from it must not stay in registers over the loops that need them all.
__device__ inline void attention(const Task& task, float* smem) {
  const Tiles tiles = tiles_in(smem);
  if (threadIdx.x == 0) {
    *tiles.block = block_of(task);
  }
  __syncthreads();
  const Place place = place_of_thread();
  pass_statistics(tiles, task, *tiles.block, place);
  pass_output(tiles, task, *tiles.block, place);
}

}  // namespace
}  // namespace swr::reference
