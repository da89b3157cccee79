// SPDX-License-Identifier: MIT
// The fp64 reference of attention over unequal sequences, for tests on a GPU. It shares nothing
// with the tuned kernels but the parameter block: it finds lengths, pages and visible keys in its
// own words, takes one query of one head per CTA and one key per thread, and passes over the keys
// twice.
//
// Grid: (batch * max_seq_q, heads_q); block: 128 threads. O is written in fp32, [rows, heads_q,
// head_dim_v] contiguous, lse in fp64 with natural logarithms, [rows, heads_q], where a row is
// cu_seqlens_q[i] + query, or i * max_seq_q + query without. Rows that are no query are left alone.
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/serving_attention_params.h>

namespace swr::reference {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxHeadDim = 256;

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
__device__ double element(const void* tensor, long long index, bool is_bf16) {
  return decode(static_cast<const unsigned short*>(tensor)[index], is_bf16);
}

/// One query of one head, and what it may see.
struct Query {
  int sequence;
  int index;  ///< In its sequence.
  int row;    ///< Of q with cu_seqlens_q.
  int head;
  int seq_q;
  int seq_kv;
  int padding;
};

__device__ Query query_of(const ServingAttentionParams& params) {
  const SequenceLengths& lengths = params.lengths;
  Query query;
  query.sequence = static_cast<int>(blockIdx.x) / params.max_seq_q;
  query.index = static_cast<int>(blockIdx.x) % params.max_seq_q;
  query.head = static_cast<int>(blockIdx.y);
  const int i = query.sequence;
  query.seq_q = params.max_seq_q;
  query.row = i * params.max_seq_q + query.index;
  if (lengths.cu_seqlens_q != nullptr) {
    query.seq_q = min(query.seq_q, lengths.cu_seqlens_q[i + 1] - lengths.cu_seqlens_q[i]);
    query.row = lengths.cu_seqlens_q[i] + query.index;
  }
  if (lengths.seqused_q != nullptr) {
    query.seq_q = min(query.seq_q, lengths.seqused_q[i]);
  }
  int rows = 0;
  if (lengths.seqused_k != nullptr) {
    rows = lengths.seqused_k[i];
  } else if (lengths.cu_seqlens_k != nullptr) {
    rows = lengths.cu_seqlens_k[i + 1] - lengths.cu_seqlens_k[i];
  } else if (params.pages.indptr != nullptr) {
    const int full = params.pages.indptr[i + 1] - params.pages.indptr[i] - 1;
    rows = full < 0 ? 0 : full * params.pages.page_size + params.pages.last_page_len[i];
  } else {
    rows = params.max_seq_kv;
  }
  if (lengths.cu_seqlens_k_new != nullptr) {
    rows += lengths.cu_seqlens_k_new[i + 1] - lengths.cu_seqlens_k_new[i];
  } else {
    rows += lengths.seq_k_new;
  }
  if (params.pages.table != nullptr) {
    rows = min(rows, params.pages.pages_per_sequence * params.pages.page_size);
  }
  rows = min(rows, params.max_seq_kv);
  query.padding = lengths.leftpad_k != nullptr ? lengths.leftpad_k[i] : 0;
  query.seq_kv = max(0, rows - query.padding);
  return query;
}

__device__ long long row_of_key(const ServingAttentionParams& params, const TensorStrides& strides,
                                const Query& query, int key) {
  const int i = query.sequence;
  int row = query.padding + key;
  long long container = 0;
  if (params.pages.page_size > 0) {
    const int entry = row / params.pages.page_size;
    row %= params.pages.page_size;
    container = params.pages.table != nullptr
                    ? params.pages.table[i * params.pages.table_stride + entry]
                    : params.pages.indices[params.pages.indptr[i] + entry];
  } else if (params.lengths.cu_seqlens_k != nullptr) {
    row += params.lengths.cu_seqlens_k[i];
  } else {
    container = params.lengths.kv_batch_index != nullptr ? params.lengths.kv_batch_index[i] : i;
  }
  const int head = query.head / (params.heads_q / params.heads_kv);
  return container * strides.batch + head * strides.head + row * strides.seq;
}

__device__ bool sees(const ServingAttentionParams& params, ServingMask mask, const Query& query,
                     int key) {
  const long long position = static_cast<long long>(query.index) + query.seq_kv - query.seq_q;
  if (mask == ServingMask::full) {
    return true;
  }
  if (mask == ServingMask::causal) {
    return key <= position;
  }
  const KeyWindow& window = params.window;
  if ((window.left >= 0 && position - key > window.left) ||
      (window.right >= 0 && key - position > window.right)) {
    return false;
  }
  if (window.chunk == 0) {
    return true;
  }
  const long long own =
      position >= 0 ? position / window.chunk : -((-position + window.chunk - 1) / window.chunk);
  return key / window.chunk == own;
}

/// Over all threads of the CTA; `shared` holds kThreads values.
template <typename Combine>
__device__ double over_all(double value, double* shared, const Combine& combine) {
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int i = 0; i < kThreads; ++i) {
    value = i == 0 ? shared[0] : combine(value, shared[i]);
  }
  return value;
}

__device__ double sink_of(const ServingAttentionParams& params, int head) {
  if (params.sinks == nullptr) {
    return -static_cast<double>(__int_as_float(0x7f800000));
  }
  return params.sink_type == SinkType::fp32
             ? static_cast<double>(static_cast<const float*>(params.sinks)[head])
             : element(params.sinks, head, params.sink_type == SinkType::bf16);
}

}  // namespace
}  // namespace swr::reference

/// dtype and mask are a DType and a ServingMask as integers; scale is the softmax scale, cap the
/// softcap or 0 for none.
extern "C" __global__ void __launch_bounds__(128)
    swr_serving_attention_reference(const __grid_constant__ swr::ServingAttentionParams params,
                                    int dtype, int mask, int head_dim, int head_dim_v, double scale,
                                    double cap, float* o, double* lse) {
  using namespace swr;
  using namespace swr::reference;
  __shared__ double q_row[kMaxHeadDim];
  __shared__ double weights[kThreads];
  __shared__ double scratch[kThreads];
  const bool is_bf16 = static_cast<DType>(dtype) == DType::bf16;
  const auto mask_kind = static_cast<ServingMask>(mask);
  const Query query = query_of(params);
  if (query.index >= query.seq_q) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.x);
  const bool ragged = params.lengths.cu_seqlens_q != nullptr;
  const long long q_first = (ragged ? 0 : query.sequence) * params.q_strides.batch +
                            query.head * params.q_strides.head +
                            (ragged ? query.row : query.index) * params.q_strides.seq;
  for (int d = thread; d < head_dim; d += kThreads) {
    q_row[d] = element(params.q, q_first + d, is_bf16);
  }
  __syncthreads();
  const double hidden = -static_cast<double>(__int_as_float(0x7f800000));
  const auto score = [&](int key) {
    if (key >= query.seq_kv || !sees(params, mask_kind, query, key)) {
      return hidden;
    }
    const long long first = row_of_key(params, params.k_strides, query, key);
    double sum = 0.0;
    for (int d = 0; d < head_dim; ++d) {
      sum += q_row[d] * element(params.k, first + d, is_bf16);
    }
    return cap == 0.0 ? scale * sum : cap * tanh(scale * sum / cap);
  };

  const double sink = sink_of(params, query.head);
  double largest = sink;
  for (int key = thread; key < query.seq_kv; key += kThreads) {
    largest = fmax(largest, score(key));
  }
  largest = over_all(largest, scratch, [](double a, double b) { return fmax(a, b); });
  double sum = 0.0;
  double columns[kMaxHeadDim / kThreads] = {};
  for (int first = 0; largest != hidden && first < query.seq_kv; first += kThreads) {
    __syncthreads();
    weights[thread] = exp(score(first + thread) - largest);
    sum += weights[thread];
    __syncthreads();
    for (int i = 0; i < min(kThreads, query.seq_kv - first); ++i) {
      if (weights[i] == 0.0) {
        continue;  // What is hidden may be anything, NaN too.
      }
      const long long row = row_of_key(params, params.v_strides, query, first + i);
      for (int j = 0; j < kMaxHeadDim / kThreads; ++j) {
        const int d = thread + j * kThreads;
        if (d < head_dim_v) {
          columns[j] += weights[i] * element(params.v, row + d, is_bf16);
        }
      }
    }
  }
  sum = over_all(sum, scratch, [](double a, double b) { return a + b; });
  sum += largest == hidden ? 0.0 : exp(sink - largest);
  const long long out = static_cast<long long>(query.row) * params.heads_q + query.head;
  for (int j = 0; j < kMaxHeadDim / kThreads; ++j) {
    const int d = thread + j * kThreads;
    if (d < head_dim_v) {
      o[out * head_dim_v + d] = sum == 0.0 ? 0.0F : static_cast<float>(columns[j] / sum);
    }
  }
  if (thread == 0) {
    lse[out] = sum == 0.0 ? hidden : largest + log(sum);
  }
}
