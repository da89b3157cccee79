// SPDX-License-Identifier: MIT
// The fp32 reference that variants are checked against. It shares nothing with the tuned kernels
// but the parameter block: plain loops over fp32 values in shared memory, no tensor cores, and two
// passes over the keys (first the softmax statistics, then the weighted sum of V) instead of a
// rescaled running output.
//
// One CTA computes kRows query rows of one head. O is written in fp32, [batch, heads_q, seq_q,
// head_dim] contiguous, whatever o_strides says; lse as AttentionParams describes.
#include "reference/launch_shape.h"
#include <swr/annotations.h>
#include <swr/attention_params.h>
#include <swr/axes.h>

namespace swr::reference {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kRowsPerWarp = kRows / kWarps;
constexpr int kMaxHeadDim = 256;
constexpr float kLn2 = 0.693147180559945309F;

__device__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000U)); }

/// fp16 to fp32. With exponent and fraction moved to fp32's places the value is too small by 2^112,
/// subnormal numbers included.
__device__ float decode_fp16(unsigned bits) {
  const unsigned magnitude = bits & 0x7fffU;
  const unsigned sign = (bits & 0x8000U) << 16;
  if (magnitude >= 0x7c00U) {
    return __uint_as_float(sign | 0x7f800000U | (magnitude << 13));
  }
  const float value = __uint_as_float(magnitude << 13) * 0x1p112F;
  return __uint_as_float(sign | __float_as_uint(value));
}

__device__ float decode(unsigned bits, DType dtype) {
  return dtype == DType::bf16 ? __uint_as_float(bits << 16) : decode_fp16(bits);
}

/// What a CTA works on.
struct Block {
  int batch;
  int head_q;
  int head_kv;
  int first_row;
  /// Keys [0, keys) may be visible to some row of the block.
  int keys;
};

__device__ Block block_of(const AttentionParams& params, bool causal) {
  const int blocks_per_head = (params.seq_q + kRows - 1) / kRows;
  const int head = static_cast<int>(blockIdx.x) / blocks_per_head;
  Block block;
  block.batch = head / params.heads_q;
  block.head_q = head % params.heads_q;
  block.head_kv = block.head_q / (params.heads_q / params.heads_kv);
  block.first_row = static_cast<int>(blockIdx.x) % blocks_per_head * kRows;
  const int last_row = min(block.first_row + kRows, params.seq_q) - 1;
  const int visible = last_row + params.seq_kv - params.seq_q + 1;
  block.keys = causal ? max(0, min(params.seq_kv, visible)) : params.seq_kv;
  return block;
}

/// Copies rows [first, first + 32) of one head to shared memory as fp32; rows past the end become
/// 0.
__device__ void stage(float* tile, const void* tensor, const TensorStrides& strides, int batch,
                      int head, int first, int seq, int head_dim, DType dtype) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned short* base =
      static_cast<const unsigned short*>(tensor) + batch * strides.batch + head * strides.head;
  for (int row = warp; row < 32; row += kWarps) {
    const bool exists = first + row < seq;
    for (int column = lane; column < head_dim; column += 32) {
      tile[row * row_floats(head_dim) + column] =
          exists ? decode(base[(first + row) * strides.seq + column], dtype) : 0.0F;
    }
  }
}

/// Writes the 32 x 32 scaled scores (log2 domain) of the staged Q and K rows; hidden ones become
/// minus infinity. Every thread owns two rows and four keys.
__device__ void compute_scores(float* scores, const float* q_tile, const float* k_tile,
                               const AttentionParams& params, const Block& block, int first_key,
                               bool causal, int head_dim) {
  const int row = static_cast<int>(threadIdx.x) / 8 * 2;
  const int key = static_cast<int>(threadIdx.x) % 8;
  float sums[2][4] = {};
  for (int d = 0; d < head_dim; ++d) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 4; ++j) {
        sums[i][j] += q_tile[(row + i) * row_floats(head_dim) + d] *
                      k_tile[(key + 8 * j) * row_floats(head_dim) + d];
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int global_row = block.first_row + row + i;
      const int global_key = first_key + key + 8 * j;
      const bool visible = global_key < params.seq_kv &&
                           (!causal || global_key <= global_row + params.seq_kv - params.seq_q);
      scores[(row + i) * (kKeys + 1) + key + 8 * j] =
          visible ? sums[i][j] * params.scale_log2 : minus_infinity();
    }
  }
}

/// Maximum of a row's scores and the sum of 2^(score - maximum).
struct RowStatistics {
  float maximum;
  float sum;
};

__device__ RowStatistics merge(RowStatistics a, RowStatistics b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == minus_infinity()) {
    return {maximum, 0.0F};
  }
  return {maximum, a.sum * exp2f(a.maximum - maximum) + b.sum * exp2f(b.maximum - maximum)};
}

__device__ RowStatistics merge_lanes(RowStatistics statistics) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const RowStatistics other{__shfl_xor_sync(0xffffffffU, statistics.maximum, distance),
                              __shfl_xor_sync(0xffffffffU, statistics.sum, distance)};
    statistics = merge(statistics, other);
  }
  return statistics;
}

/// Shared memory of a CTA.
struct Tiles {
  float* q;       ///< [kRows, head_dim]
  float* kv;      ///< [kKeys, head_dim]; K, then V.
  float* scores;  ///< [kRows, kKeys]; scores, then probabilities.
};

/// First pass: the statistics of this warp's rows, equal in all lanes.
__device__ void pass_statistics(RowStatistics (&rows)[kRowsPerWarp], const Tiles& tiles,
                                const AttentionParams& params, const Block& block, DType dtype,
                                bool causal, int head_dim) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int first_key = 0; first_key < block.keys; first_key += kKeys) {
    __syncthreads();
    stage(tiles.kv, params.k, params.k_strides, block.batch, block.head_kv, first_key,
          params.seq_kv, head_dim, dtype);
    __syncthreads();
    compute_scores(tiles.scores, tiles.q, tiles.kv, params, block, first_key, causal, head_dim);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const float score = tiles.scores[(warp * kRowsPerWarp + i) * (kKeys + 1) + lane];
      rows[i] = merge(rows[i], {score, score == minus_infinity() ? 0.0F : 1.0F});
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    rows[i] = merge_lanes(rows[i]);
  }
}

/// Turns this warp's scores into probabilities.
__device__ void normalize(float* scores, const RowStatistics (&rows)[kRowsPerWarp]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    float& score = scores[(warp * kRowsPerWarp + i) * (kKeys + 1) + lane];
    score = score == minus_infinity() ? 0.0F : exp2f(score - rows[i].maximum) / rows[i].sum;
  }
}

/// Second pass: O = P V for this warp's rows; lane l owns columns l, l + 32, ...
__device__ void pass_output(float (&output)[kRowsPerWarp][kMaxHeadDim / 32], const Tiles& tiles,
                            const RowStatistics (&rows)[kRowsPerWarp],
                            const AttentionParams& params, const Block& block, DType dtype,
                            bool causal, int head_dim) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int first_key = 0; first_key < block.keys; first_key += kKeys) {
    __syncthreads();
    stage(tiles.kv, params.k, params.k_strides, block.batch, block.head_kv, first_key,
          params.seq_kv, head_dim, dtype);
    __syncthreads();
    compute_scores(tiles.scores, tiles.q, tiles.kv, params, block, first_key, causal, head_dim);
    __syncthreads();
    normalize(tiles.scores, rows);
    stage(tiles.kv, params.v, params.v_strides, block.batch, block.head_kv, first_key,
          params.seq_kv, head_dim, dtype);
    __syncthreads();
    for (int key = 0; key < kKeys; ++key) {
#pragma unroll
      for (int j = 0; j < kMaxHeadDim / 32; ++j) {
        const int column = lane + 32 * j;
        if (column < head_dim) {
          const float value = tiles.kv[key * row_floats(head_dim) + column];
#pragma unroll
          for (int i = 0; i < kRowsPerWarp; ++i) {
            output[i][j] += tiles.scores[(warp * kRowsPerWarp + i) * (kKeys + 1) + key] * value;
          }
        }
      }
    }
  }
}

/// Writes this warp's rows of O and lse.
__device__ void store(const float (&output)[kRowsPerWarp][kMaxHeadDim / 32],
                      const RowStatistics (&rows)[kRowsPerWarp], const AttentionParams& params,
                      const Block& block, int head_dim) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const long long head = static_cast<long long>(block.batch) * params.heads_q + block.head_q;
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    const int row = block.first_row + warp * kRowsPerWarp + i;
    if (row >= params.seq_q) {
      continue;
    }
    const long long index = head * params.seq_q + row;
#pragma unroll
    for (int j = 0; j < kMaxHeadDim / 32; ++j) {
      const int column = lane + 32 * j;
      if (column < head_dim) {
        static_cast<float*>(params.o)[index * head_dim + column] = output[i][j];
      }
    }
    if (params.lse != nullptr && lane == 0) {
      params.lse[index] =
          rows[i].sum == 0.0F ? minus_infinity() : kLn2 * (rows[i].maximum + log2f(rows[i].sum));
    }
  }
}

}  // namespace
}  // namespace swr::reference

/// dtype and causal are a DType and a bool as integers.
extern "C" __global__ void __launch_bounds__(swr::reference::kThreads, 3)
    swr_attention_reference(const __grid_constant__ swr::AttentionParams params, int dtype,
                            int causal, int head_dim) {
  using namespace swr::reference;
  extern __shared__ float smem[];
  const Tiles tiles{smem, smem + kRows * row_floats(head_dim),
                    smem + (kRows + kKeys) * row_floats(head_dim)};
  const swr::DType type = static_cast<swr::DType>(dtype);
  const Block block = block_of(params, causal != 0);
  stage(tiles.q, params.q, params.q_strides, block.batch, block.head_q, block.first_row,
        params.seq_q, head_dim, type);

  RowStatistics rows[kRowsPerWarp];
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    rows[i] = {minus_infinity(), 0.0F};
  }
  pass_statistics(rows, tiles, params, block, type, causal != 0, head_dim);
  float output[kRowsPerWarp][kMaxHeadDim / 32] = {};
  pass_output(output, tiles, rows, params, block, type, causal != 0, head_dim);
  store(output, rows, params, block, head_dim);
}
