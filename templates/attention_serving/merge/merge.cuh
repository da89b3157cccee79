// SPDX-License-Identifier: MIT
// Merges attention over different keys of the same queries: cascades over shared prefixes, and
// parts that were computed apart. Arithmetic is in fp32, in the order of the parts.
#pragma once

#include "attention_serving/octet.cuh"
#include "common/ptx.cuh"
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/merge_states_params.h>

namespace swr::serving {

inline constexpr int kMergeThreads = 256;

/// Eight columns of a tensor of type `Type`, `elements` from its first.
template <OutputType Type>
__device__ inline Octet load_octet(const void* tensor, long long elements) {
  if constexpr (Type == OutputType::fp32) {
    const auto* const quads =
        reinterpret_cast<const float4*>(static_cast<const float*>(tensor) + elements);
    const float4 a = quads[0];
    const float4 b = quads[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  } else {
    return unpacked<static_cast<DType>(Type)>(*octet_at(tensor, elements));
  }
}
template <OutputType Type>
__device__ inline void store_octet(void* tensor, long long elements, const Octet& octet) {
  const float* const v = octet.values;
  if constexpr (Type == OutputType::fp32) {
    auto* const quads = reinterpret_cast<float4*>(static_cast<float*>(tensor) + elements);
    quads[0] = make_float4(v[0], v[1], v[2], v[3]);
    quads[1] = make_float4(v[4], v[5], v[6], v[7]);
  } else {
    *octet_at(tensor, elements) = packed<static_cast<DType>(Type)>(octet);
  }
}

/// One row of one head.
class StateRow {
 public:
  __device__ StateRow(const MergeStatesParams& params, int head, long long row)
      : params_(params),
        part_(head * params.part_strides.head + row * params.part_strides.seq),
        part_lse_(head * params.part_lse_strides.head + row * params.part_lse_strides.seq),
        o_(head * params.o_strides.head + row * params.o_strides.seq),
        lse_(head * params.lse_strides.head + row * params.lse_strides.seq),
        top_(minus_infinity()) {
    for (int part = 0; part < params.part_count; ++part) {
      top_ = fmaxf(top_, log2_sum(part));
    }
  }

  template <OutputType PartType, OutputType Type>
  __device__ void merge(int octet) const {
    Octet sums = {};
    float total = 0.0F;
    for (int part = 0; part < params_.part_count; ++part) {
      const float of_part = log2_sum(part);
      if (of_part == minus_infinity()) {
        continue;  // Its rows may hold anything.
      }
      const float weight = ptx::ex2_approx(of_part - top_);
      const Octet values = load_octet<PartType>(
          params_.parts, part * params_.part_strides.batch + part_ + octet * kColumns);
      total += weight;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        sums.values[i] = fmaf(weight, values.values[i], sums.values[i]);
      }
    }
    const float factor = total == 0.0F ? 0.0F : 1.0F / total;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      sums.values[i] *= factor;
    }
    store_octet<Type>(params_.o, o_ + octet * kColumns, sums);
    if (octet == 0 && params_.lse != nullptr) {
      params_.lse[lse_] =
          total == 0.0F ? minus_infinity() : (top_ + log2f(total)) * params_.lse_unit;
    }
  }

 private:
  __device__ static float minus_infinity() { return __uint_as_float(0xff800000U); }
  __device__ float log2_sum(int part) const {
    return params_.part_lse[part * params_.part_lse_strides.batch + part_lse_] / params_.lse_unit;
  }

  const MergeStatesParams& params_;
  long long part_;
  long long part_lse_;
  long long o_;
  long long lse_;
  float top_;
};

/// The whole launch, of any number of CTAs of kMergeThreads threads.
template <OutputType PartType, OutputType Type>
__device__ inline void merge_states(const MergeStatesParams& params) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int octets = params.head_dim / kColumns;
  const long long all = params.rows * params.heads * octets;
  const long long threads = static_cast<long long>(gridDim.x) * kMergeThreads;
  for (long long index = static_cast<long long>(blockIdx.x) * kMergeThreads + threadIdx.x;
       index < all; index += threads) {
    const long long row_and_head = index / octets;
    const StateRow row(params, static_cast<int>(row_and_head % params.heads),
                       row_and_head / params.heads);
    row.merge<PartType, Type>(static_cast<int>(index % octets));
  }
}

}  // namespace swr::serving
