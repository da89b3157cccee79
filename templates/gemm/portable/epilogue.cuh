// SPDX-License-Identifier: MIT
// From a warp's sums to C, and the sum over the splits of k before that.
#pragma once

#include "common/ptx.cuh"
#include "gemm/element.cuh"
#include "gemm/portable/config.h"
#include "gemm/portable/fragments.cuh"
#include <swr/gemm_params.h>

namespace swr::portable {

/// Writes two neighbouring elements, of which `count` (1 or 2) exist.
template <PortableGemmConfig C>
__device__ inline void store_pair(void* c, long long index, const float (&values)[2], int count) {
  if constexpr (C.output == OutputType::fp32) {
    auto* const target = static_cast<float*>(c) + index;
    if (C.alignment_bytes >= 8 && count == 2) {
      *reinterpret_cast<float2*>(target) = make_float2(values[0], values[1]);
      return;
    }
    target[0] = values[0];
    if (count == 2) {
      target[1] = values[1];
    }
  } else {
    auto* const target = static_cast<unsigned short*>(c) + index;
    const unsigned packed = pack_output<C.output>(values[0], values[1]);
    if (C.alignment_bytes >= 4 && count == 2) {
      *reinterpret_cast<unsigned*>(target) = packed;
      return;
    }
    target[0] = static_cast<unsigned short>(packed);
    if (count == 2) {
      target[1] = static_cast<unsigned short>(packed >> 16);
    }
  }
}

/// Writes two neighbouring FP8 elements, of which `count` (1 or 2) exist.
__device__ inline void store_fp8_pair(void* c, long long index, float low, float high, int count) {
  const unsigned short packed = ptx::cvt_rn_satfinite_e4m3x2(low, high);
  auto* const target = static_cast<unsigned char*>(c) + index;
  if (count == 2) {  // At an even index, and FP8 lies at multiples of 4 bytes.
    *reinterpret_cast<unsigned short*>(target) = packed;
  } else {
    target[0] = static_cast<unsigned char>(packed);
  }
}

/// C from sums up to row `row_end`, with all that GemmExtras says; `row` and `column` are the
/// warp's first of C.
template <PortableGemmConfig C>
__device__ inline void write_sums(Sums<C>& sums, const GemmParams& params, const GemmExtras& extras,
                                  int batch, int row, int row_end, int column) {
  const int lane_column = static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
    const int first_row = row + 16 * m + static_cast<int>(threadIdx.x % 32 / 4);
    float* const values = &sums[m][0][0];
    finish_rows<C, 8 * C.n_blocks()>(values, params, extras, batch, first_row, column, lane_column);
    float scale[2] = {1.0F, 1.0F};
    if constexpr (C.output == OutputType::fp8) {
      scale_output<C, C.warp_c_columns()>(scale, values, params, extras, first_row, column,
                                          lane_column);
    }
#pragma unroll
    for (int pair = 0; pair < C.warp_c_columns() / 4; ++pair) {
      const int element_row = first_row + pair % 2 * 8;
      const int first = column + pair / 2 * 8 + lane_column;
      const int count = min_of(2, params.n - first);
      if (element_row >= row_end || count <= 0) {
        continue;
      }
      const long long index =
          batch * params.c_strides.batch + element_row * params.c_strides.row + first;
      const float pair_values[2] = {values[2 * pair] * scale[pair % 2],
                                    values[2 * pair + 1] * scale[pair % 2]};
      if constexpr (C.output == OutputType::fp8) {
        store_fp8_pair(params.c, index, pair_values[0], pair_values[1], count);
      } else {
        store_pair<C>(params.c, index, pair_values, count);
      }
    }
  }
}

/// Leaves this split's sums where the others find them. True when all splits have: then `sums` are
/// those over all of k, always added in the order of the splits. `vote` is a word in shared memory.
template <PortableGemmConfig C>
__device__ inline bool sum_splits(Sums<C>& sums, const GemmParams& params, int tile, int split,
                                  unsigned vote) {
  const long long part = static_cast<long long>(C.tile_m) * C.tile_n;
  float* const tile_partials = params.partials + tile * params.splits * part + 4 * threadIdx.x;
  const auto offset = [](int m, int n) { return (m * C.n_blocks() + n) * 4 * C.threads(); };
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.n_blocks(); ++n) {
      const auto& s = sums[m][n];
      __stcg(reinterpret_cast<float4*>(tile_partials + split * part + offset(m, n)),
             make_float4(s[0], s[1], s[2], s[3]));
    }
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool last =
        atomicAdd(params.arrivals + tile, 1U) + 1 == static_cast<unsigned>(params.splits);
    if (last) {
      params.arrivals[tile] = 0;
    }
    ptx::st_shared(vote, last ? 1U : 0U);
  }
  __syncthreads();
  __threadfence();
  if (ptx::ld_shared_b32(vote) == 0) {
    return false;
  }
#pragma unroll
  for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
    for (int n = 0; n < C.n_blocks(); ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[m][n][i] = 0.0F;
      }
    }
  }
  for (int other = 0; other < params.splits; ++other) {
#pragma unroll
    for (int m = 0; m < C.m_blocks(); ++m) {
#pragma unroll
      for (int n = 0; n < C.n_blocks(); ++n) {
        const float4 term =
            __ldcg(reinterpret_cast<const float4*>(tile_partials + other * part + offset(m, n)));
        sums[m][n][0] += term.x;
        sums[m][n][1] += term.y;
        sums[m][n][2] += term.z;
        sums[m][n][3] += term.w;
      }
    }
  }
  return true;
}

}  // namespace swr::portable
