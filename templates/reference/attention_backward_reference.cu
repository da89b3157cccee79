// SPDX-License-Identifier: MIT
// The fp64 reference of attention backward, and its comparison. It shares nothing with the tuned
// kernels but the parameter block: plain sums over one query row or one key at a time, every score
// computed anew where it is needed.
//
// swr_backward_reference_rows makes what backward starts from (O rounded to the elements' type,
// log-sum-exps) and, of exact rows, log-sum-exp, rowsum(dO * O) and dQ.
// swr_backward_reference_keys makes dK and dV from those. Exact means fp64 from the elements of Q,
// K, V and dO.
//
// Both also say, of each row of dQ and dK, what an O that was rounded by one unit leaves in it, in
// the root mean square: rowsum(dO * O) is then off by A, A^2 the sum of (dO O)^2, and dQ by scale A
// sum P K. Beside few keys dS = P (dP - rowsum) cancels, so that this is all there is.
#include "reference/comparison.h"
#include <swr/annotations.h>
#include <swr/attention_backward_params.h>
#include <swr/axes.h>

namespace swr::reference {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxColumns = 256;
constexpr int kColumns = kMaxColumns / kThreads;  ///< Of a thread.

__device__ double infinity() { return static_cast<double>(__int_as_float(0x7f800000)); }

__device__ double decode(unsigned bits, bool is_bf16) {
  if (is_bf16) {
    return static_cast<double>(__uint_as_float(bits << 16));
  }
  // With exponent and fraction moved to fp32's places the value is too small by 2^112.
  const unsigned magnitude = bits & 0x7fffU;
  const float value = magnitude >= 0x7c00U ? __uint_as_float(0x7f800000U | (magnitude << 13))
                                           : __uint_as_float(magnitude << 13) * 0x1p112F;
  return static_cast<double>((bits & 0x8000U) != 0 ? -value : value);
}

/// Rounded to nearest even by way of fp32, whose second rounding changes nothing that matters here.
__device__ unsigned short encode(double value, bool is_bf16) {
  const auto single = static_cast<float>(value);
  unsigned short bits;
  if (is_bf16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(single));
  } else {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(single));
  }
  return bits;
}

/// Rows of one head of a tensor.
struct Rows {
  const unsigned short* first;
  long long stride;
  bool is_bf16;

  __device__ double at(int row, int column) const {
    return decode(first[row * stride + column], is_bf16);
  }
};

__device__ Rows rows_of(const void* tensor, const TensorStrides& strides, int batch, int head,
                        bool is_bf16) {
  return {static_cast<const unsigned short*>(tensor) + batch * strides.batch + head * strides.head,
          strides.seq, is_bf16};
}

/// A row as all threads of the CTA read it.
struct SharedRow {
  double* values;

  __device__ void fill(const Rows& rows, int row, int columns) const {
    for (int column = static_cast<int>(threadIdx.x); column < columns; column += kThreads) {
      values[column] = rows.at(row, column);
    }
  }
  __device__ double dot(const Rows& rows, int row, int columns) const {
    double sum = 0.0;
    for (int column = 0; column < columns; ++column) {
      sum += values[column] * rows.at(row, column);
    }
    return sum;
  }
};

/// Adds weight times a row of a tensor to the columns that a thread owns, for a block of rows.
__device__ void add_weighted(double (&sums)[kColumns], const double* weights, const Rows& rows,
                             int first, int count, int columns) {
  for (int i = 0; i < count; ++i) {
    if (weights[i] == 0.0) {
      continue;  // What is hidden may be anything, NaN too.
    }
    for (int j = 0; j < kColumns; ++j) {
      const int column = static_cast<int>(threadIdx.x) + j * kThreads;
      if (column < columns) {
        sums[j] += weights[i] * rows.at(first + i, column);
      }
    }
  }
}

/// Over all threads of the CTA; `shared` holds kThreads values.
template <typename Combine>
__device__ double over_all(double value, double* shared, const Combine& combine) {
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < kThreads; ++i) {
    value = combine(value, shared[i]);
  }
  return value;
}
__device__ double sum_over_all(double value, double* shared) {
  return over_all(value, shared, [](double a, double b) { return a + b; });
}

__device__ double sum_over_lanes(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

/// Non-negative doubles and NaN order like their bit patterns, NaN last.
__device__ void atomic_max(double* target, double value) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(fabs(value))));
}

/// Mixes the bits of a word with its place (splitmix64).
__device__ unsigned long long mixed(unsigned long long place, unsigned word) {
  unsigned long long x = (place << 16 | word) + 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

}  // namespace
}  // namespace swr::reference

/// One CTA of 128 threads per query row: grid batch * heads_q * seq_q. dtype and causal are a DType
/// and a bool as integers, scale is the softmax scale. Writes o and lse, which params point to, and
/// of rows, contiguous: lse_exact, delta, dq [rows, head_dim], the square of what a rounded O
/// leaves in a row of dQ, and of what a unit of P makes it leave in dK.
extern "C" __global__ void __launch_bounds__(128)
    swr_backward_reference_rows(const __grid_constant__ swr::AttentionBackwardParams params,
                                int dtype, int causal, int head_dim, int value_dim, double scale,
                                double* lse_exact, double* delta, float* dq, float* left_in_dq,
                                float* left_by_row) {
  using namespace swr;
  using namespace swr::reference;
  __shared__ double q_row[kMaxColumns];
  __shared__ double d_o_row[kMaxColumns];
  __shared__ double weights[kThreads];
  __shared__ double scratch[kThreads];
  const bool is_bf16 = static_cast<DType>(dtype) == DType::bf16;
  const long long index = blockIdx.x;
  const int row = static_cast<int>(index % params.seq_q);
  const int head = static_cast<int>(index / params.seq_q % params.heads_q);
  const int batch = static_cast<int>(index / params.seq_q / params.heads_q);
  const int head_kv = head / (params.heads_q / params.heads_kv);
  const Rows k = rows_of(params.k, params.k_strides, batch, head_kv, is_bf16);
  const Rows v = rows_of(params.v, params.v_strides, batch, head_kv, is_bf16);
  const SharedRow q{q_row};
  const SharedRow d_o{d_o_row};
  q.fill(rows_of(params.q, params.q_strides, batch, head, is_bf16), row, head_dim);
  d_o.fill(rows_of(params.d_o, params.d_o_strides, batch, head, is_bf16), row, value_dim);
  __syncthreads();
  const long long seen = causal != 0 ? 1LL + row + params.seq_kv - params.seq_q : params.seq_kv;
  const int keys = static_cast<int>(seen < 0 ? 0 : seen < params.seq_kv ? seen : params.seq_kv);
  const int thread = static_cast<int>(threadIdx.x);

  double largest = -infinity();
  for (int key = thread; key < keys; key += kThreads) {
    largest = fmax(largest, scale * q.dot(k, key, head_dim));
  }
  largest = over_all(largest, scratch, [](double a, double b) { return fmax(a, b); });
  double sum = 0.0;
  double output[kColumns] = {};
  double mean_key[kColumns] = {};
  for (int first = 0; first < keys; first += kThreads) {
    const int key = first + thread;
    __syncthreads();
    weights[thread] = key < keys ? exp(scale * q.dot(k, key, head_dim) - largest) : 0.0;
    sum += weights[thread];
    __syncthreads();
    add_weighted(output, weights, v, first, min(kThreads, keys - first), value_dim);
    add_weighted(mean_key, weights, k, first, min(kThreads, keys - first), head_dim);
  }
  sum = sum_over_all(sum, scratch);
  const double lse = keys == 0 ? -infinity() : largest + log(sum);
  double own_delta = 0.0;
  double own_left = 0.0;
  double own_key = 0.0;
  double own_q = 0.0;
  auto* const o = static_cast<unsigned short*>(const_cast<void*>(params.o)) +
                  batch * params.o_strides.batch + head * params.o_strides.head +
                  row * params.o_strides.seq;
  for (int j = 0; j < kColumns; ++j) {
    const int column = thread + j * kThreads;
    if (column < value_dim) {
      const double value = keys == 0 ? 0.0 : output[j] / sum;
      own_delta += value * d_o_row[column];
      own_left += value * d_o_row[column] * value * d_o_row[column];
      o[column] = encode(value, is_bf16);
    }
    if (column < head_dim) {
      own_key += keys == 0 ? 0.0 : mean_key[j] * mean_key[j] / (sum * sum);
      own_q += q_row[column] * q_row[column];
    }
  }
  const double row_delta = sum_over_all(own_delta, scratch);
  const double left = scale * scale * sum_over_all(own_left, scratch);
  const double key_squared = sum_over_all(own_key, scratch);
  const double q_squared = sum_over_all(own_q, scratch);
  double gradient[kColumns] = {};
  for (int first = 0; first < keys; first += kThreads) {
    const int key = first + thread;
    __syncthreads();
    weights[thread] = key < keys ? exp(scale * q.dot(k, key, head_dim) - lse) *
                                       (d_o.dot(v, key, value_dim) - row_delta)
                                 : 0.0;
    __syncthreads();
    add_weighted(gradient, weights, k, first, min(kThreads, keys - first), head_dim);
  }
  for (int j = 0; j < kColumns; ++j) {
    const int column = thread + j * kThreads;
    if (column < head_dim) {
      dq[index * head_dim + column] = static_cast<float>(scale * gradient[j]);
    }
  }
  if (thread == 0) {
    lse_exact[index] = lse;
    delta[index] = row_delta;
    left_in_dq[index] = static_cast<float>(left * key_squared);
    left_by_row[index] = static_cast<float>(left * q_squared);
    const_cast<float*>(params.lse)[index] = static_cast<float>(lse);
  }
}

/// One CTA of 128 threads per key: grid batch * heads_kv * seq_kv. Writes dk [keys, head_dim] and
/// dv [keys, value_dim], contiguous, and the square of what rounded rows of O leave in each row of
/// dK.
extern "C" __global__ void __launch_bounds__(128)
    swr_backward_reference_keys(const __grid_constant__ swr::AttentionBackwardParams params,
                                int dtype, int causal, int head_dim, int value_dim, double scale,
                                const double* lse_exact, const double* delta,
                                const float* left_by_row, float* dk, float* dv, float* left_in_dk) {
  using namespace swr;
  using namespace swr::reference;
  __shared__ double k_row[kMaxColumns];
  __shared__ double v_row[kMaxColumns];
  __shared__ double p_block[kThreads];
  __shared__ double ds_block[kThreads];
  __shared__ double scratch[kThreads];
  const bool is_bf16 = static_cast<DType>(dtype) == DType::bf16;
  const long long index = blockIdx.x;
  const int key = static_cast<int>(index % params.seq_kv);
  const int head_kv = static_cast<int>(index / params.seq_kv % params.heads_kv);
  const int batch = static_cast<int>(index / params.seq_kv / params.heads_kv);
  const int group = params.heads_q / params.heads_kv;
  const SharedRow k{k_row};
  const SharedRow v{v_row};
  k.fill(rows_of(params.k, params.k_strides, batch, head_kv, is_bf16), key, head_dim);
  v.fill(rows_of(params.v, params.v_strides, batch, head_kv, is_bf16), key, value_dim);
  const int first_row = causal != 0 ? max(0, key - (params.seq_kv - params.seq_q)) : 0;
  const int thread = static_cast<int>(threadIdx.x);
  double dk_sums[kColumns] = {};
  double dv_sums[kColumns] = {};
  double own_left = 0.0;
  for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
    const Rows q = rows_of(params.q, params.q_strides, batch, head, is_bf16);
    const Rows d_o = rows_of(params.d_o, params.d_o_strides, batch, head, is_bf16);
    const long long head_rows =
        (static_cast<long long>(batch) * params.heads_q + head) * params.seq_q;
    for (int first = first_row; first < params.seq_q; first += kThreads) {
      const int row = first + thread;
      __syncthreads();
      p_block[thread] = 0.0;
      ds_block[thread] = 0.0;
      if (row < params.seq_q) {
        const double p = exp(scale * k.dot(q, row, head_dim) - lse_exact[head_rows + row]);
        p_block[thread] = p;
        ds_block[thread] = p * (v.dot(d_o, row, value_dim) - delta[head_rows + row]);
        own_left += p * p * static_cast<double>(left_by_row[head_rows + row]);
      }
      __syncthreads();
      const int count = min(kThreads, params.seq_q - first);
      add_weighted(dv_sums, p_block, d_o, first, count, value_dim);
      add_weighted(dk_sums, ds_block, q, first, count, head_dim);
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    const int column = thread + j * kThreads;
    if (column < head_dim) {
      dk[index * head_dim + column] = static_cast<float>(scale * dk_sums[j]);
    }
    if (column < value_dim) {
      dv[index * value_dim + column] = static_cast<float>(dv_sums[j]);
    }
  }
  const double left = sum_over_all(own_left, scratch);
  if (thread == 0) {
    left_in_dk[index] = static_cast<float>(left);
  }
}

/// Sum of squares of `count` values.
extern "C" __global__ void swr_sum_of_squares(const float* values, long long count, double* sum) {
  double own = 0.0;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    own += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  own = swr::reference::sum_over_lanes(own);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(sum, own);
  }
}

/// One warp per row of a gradient [batch, heads, seq, columns]. A row counts beside its own size,
/// the mean one, and what a rounded O leaves in it (`left`, squared; null for none): some are 0 by
/// cancellation. Puts the poison back after reading (compare.cu).
extern "C" __global__ void swr_compare_gradient(void* tensor,
                                                const __grid_constant__ swr::TensorStrides strides,
                                                int batch, int heads, int seq, int columns,
                                                int dtype, const float* reference,
                                                const float* left, double mean_row_squared,
                                                swr::reference::Comparison* result) {
  using namespace swr::reference;
  constexpr unsigned short kPoison = 0xffffU;
  const bool is_bf16 = static_cast<swr::DType>(dtype) == swr::DType::bf16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long warps = static_cast<long long>(gridDim.x) * blockDim.x / 32;
  const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const long long rows = static_cast<long long>(batch) * heads * seq;
  double total_error = 0.0;
  double total_reference = 0.0;
  for (long long index = first; index < rows; index += warps) {
    unsigned short* const row = static_cast<unsigned short*>(tensor) +
                                index / seq / heads * strides.batch +
                                index / seq % heads * strides.head + index % seq * strides.seq;
    double error = 0.0;
    double size = 0.0;
    for (int column = lane; column < columns; column += 32) {
      const double expected = static_cast<double>(reference[index * columns + column]);
      const double off = decode(row[column], is_bf16) - expected;
      row[column] = kPoison;
      error += off * off;
      size += expected * expected;
    }
    error = sum_over_lanes(error);
    size = sum_over_lanes(size) + (left == nullptr ? 0.0 : static_cast<double>(left[index]));
    total_error += error;
    total_reference += size;
    if (lane == 0) {
      atomic_max(&result->worst_row_error, sqrt(error / (size + mean_row_squared)));
    }
  }
  if (lane == 0) {
    atomicAdd(&result->error_squared, total_error);
    atomicAdd(&result->reference_squared, total_reference);
  }
}

/// A number that tells tensors of other bits apart, in whatever order threads come.
extern "C" __global__ void swr_digest_gradient(const void* tensor,
                                               const __grid_constant__ swr::TensorStrides strides,
                                               int batch, int heads, int seq, int columns,
                                               unsigned long long* digest) {
  const long long elements = static_cast<long long>(batch) * heads * seq * columns;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long own = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += threads) {
    const long long row = i / columns;
    const unsigned short* const element =
        static_cast<const unsigned short*>(tensor) + row / seq / heads * strides.batch +
        row / seq % heads * strides.head + row % seq * strides.seq + i % columns;
    own += swr::reference::mixed(static_cast<unsigned long long>(i), *element);
  }
  atomicAdd(digest, own);
}
