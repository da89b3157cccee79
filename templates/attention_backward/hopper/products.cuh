// SPDX-License-Identifier: MIT
// The five products of a consumer warpgroup as asynchronous wgmma, each issued and not committed.
// Tiles lie in shared memory as panels (config.h); an operand is read along its lines (K-major) or
// across them (the transposed, MN-major form) from the same tile.
#pragma once

#include "attention_backward/hopper/config.h"
#include "common/hopper_ptx.cuh"
#include "common/wgmma_operand.cuh"
#include "common/wgmma_widths.cuh"

namespace swr::hopper {

// What a thread holds of [64, columns]: thread t rows 16 (t / 32) + t % 32 / 4 + {0, 8}; element
// 4 j + 2 h + i is column 8 j + 2 (t % 4) + i of the row half h.

/// S^T and dP^T: 64 keys, score_rows rows of the step.
template <HopperKeyPassConfig C>
using Weights = float[C.score_rows() / 2];
/// P^T and dS^T rounded, as operand A: pairs of columns, in the order of Weights.
template <HopperKeyPassConfig C>
using RoundedWeights = unsigned[C.score_rows() / 4];
/// dK and dV of 64 keys.
template <HopperKeyPassConfig C>
using KeySums = float[C.own_key_columns() / 2];
template <HopperKeyPassConfig C>
using ValueSums = float[C.own_value_columns() / 2];
/// A warp's share of dQ.
template <HopperKeyPassConfig C>
using DqSums = float[C.dq_product_columns() / 2];

/// Operand A of so many steps of 16 columns, in registers.
template <int Steps>
struct HeldSteps {
  unsigned steps[max_of(Steps, 1)][4];

  __device__ __forceinline__ void fence() {
#pragma unroll
    for (int i = 0; i < Steps; ++i) {
      ptx::warpgroup_fence_operand(steps[i]);
    }
  }
};

/// weights = A B^T over `Columns` columns: A are 64 rows of a tile of tile_n keys, of whose columns
/// the last ones are held, B score_rows of a tile of tile_m rows.
template <HopperKeyPassConfig C, int Columns, int Held>
__device__ __forceinline__ void multiply_rows(Weights<C>& weights, unsigned keys, unsigned rows,
                                              const HeldSteps<Held>& held) {
  using Product = ptx::Wgmma<C.score_rows()>;
  constexpr int kFirstHeld = Columns / 16 - Held;
  const unsigned long long a = descriptor<C.kLineBytes>(keys, 0);
  const unsigned long long b = descriptor<C.kLineBytes>(rows, 0);
#pragma unroll
  for (int step = 0; step < Columns / 16; ++step) {
    const int panel = step * 32 / C.kLineBytes;
    const int byte = step * 32 % C.kLineBytes;
    const unsigned long long left = a + in_units(panel * C.tile_n * C.kLineBytes + byte);
    const unsigned long long right = b + in_units(panel * C.tile_m * C.kLineBytes + byte);
    if (step == 0) {
      Product::template mma_async<C.dtype, false, false>(weights, left, right);
    } else if (step < kFirstHeld) {
      Product::template mma_async<C.dtype, true, false>(weights, left, right);
    } else if constexpr (Held > 0) {
      Product::template mma_async<C.dtype, true, false>(weights, held.steps[step - kFirstHeld],
                                                        right);
    }
  }
}

/// sums += A B with A in registers; B is a tile of tile_m rows of `Columns` columns.
template <HopperKeyPassConfig C, int Columns>
__device__ __forceinline__ void add_product(float (&sums)[Columns / 2], const RoundedWeights<C>& a,
                                            unsigned rows) {
  const unsigned long long b = descriptor<C.kLineBytes>(rows, C.tile_m * C.kLineBytes);
#pragma unroll
  for (int step = 0; step < C.tile_m / 16; ++step) {
    const unsigned left[4] = {a[4 * step], a[4 * step + 1], a[4 * step + 2], a[4 * step + 3]};
    ptx::Wgmma<Columns>::template mma_async<C.dtype, true, true>(
        sums, left, b + in_units(step * 16 * C.kLineBytes));
  }
}

/// The same with A in shared memory: `weights` is a panel of P^T or dS^T, all keys times 64 rows.
template <HopperKeyPassConfig C, int Columns>
__device__ __forceinline__ void add_product(float (&sums)[Columns / 2], unsigned weights,
                                            unsigned rows) {
  const unsigned long long a = descriptor<C.kLineBytes>(weights, 0);
  const unsigned long long b = descriptor<C.kLineBytes>(rows, C.tile_m * C.kLineBytes);
#pragma unroll
  for (int step = 0; step < C.tile_m / 16; ++step) {
    ptx::Wgmma<Columns>::template mma_async<C.dtype, true, true>(
        sums, a + in_units(step * 32), b + in_units(step * 16 * C.kLineBytes));
  }
}

/// dq = dS K of 64 rows: `ds` lies in panels of tile_m rows times 64 keys, or, where consumers
/// divide columns, is a panel of dS^T, all keys times 64 rows. `keys` is a panel of K from which
/// the columns begin.
template <HopperKeyPassConfig C>
__device__ __forceinline__ void multiply_ds_k(DqSums<C>& dq, unsigned ds, unsigned keys) {
  const unsigned long long a = descriptor<C.kLineBytes>(ds, C.tile_n * C.kLineBytes);
  const unsigned long long b = descriptor<C.kLineBytes>(keys, C.tile_n * C.kLineBytes);
#pragma unroll
  for (int step = 0; step < C.tile_n / 16; ++step) {
    const unsigned long long down = in_units(step * 16 * C.kLineBytes);
    const unsigned long long along = in_units(step / 4 * (C.tile_m * C.kLineBytes) + step % 4 * 32);
    ptx::Wgmma<C.dq_product_columns()>::template mma_async<C.dtype, C.divides_columns(), true>(
        dq, a + (C.divides_columns() ? down : along), b + down, step > 0);
  }
}

/// Shared address of 16-byte chunk `chunk` of row `row` in panels of `Rows` rows: the hardware's
/// swizzle of 128-byte lines, written out.
template <int Rows>
__device__ __forceinline__ unsigned line_address(unsigned tile, int row, int chunk) {
  return tile + chunk / 8 * (Rows * 128) + row * 128 + (chunk % 8 ^ row % 8) * 16;
}

/// Writes a warp's 16 rows, from `row` on, of rounded sums to panels of `Rows` rows, from 16-byte
/// chunk `chunk` on.
template <int Rows, int Count>
__device__ __forceinline__ void store_rounded(unsigned tile, const unsigned (&rounded)[Count],
                                              int row, int chunk = 0) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int step = 0; step < Count / 4; ++step) {
    ptx::stmatrix_x4(line_address<Rows>(tile, row + lane % 16, chunk + 2 * step + lane / 16),
                     rounded[4 * step], rounded[4 * step + 1], rounded[4 * step + 2],
                     rounded[4 * step + 3]);
  }
}

/// The same across the lines of panels of `Rows` rows: the warp's 16 sums of a column are two
/// chunks, from `chunk` on, of the line of that number.
template <int Rows, int Count>
__device__ __forceinline__ void store_rounded_across(unsigned tile,
                                                     const unsigned (&rounded)[Count], int chunk) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int step = 0; step < Count / 4; ++step) {
    const int line = 16 * step + lane / 16 * 8 + lane % 8;
    ptx::stmatrix_x4_trans(line_address<Rows>(tile, line, chunk + lane / 8 % 2), rounded[4 * step],
                           rounded[4 * step + 1], rounded[4 * step + 2], rounded[4 * step + 3]);
  }
}

template <DType Type, int Count>
__device__ __forceinline__ void round_pairs(unsigned (&rounded)[Count],
                                            const float (&values)[2 * Count], float factor) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    rounded[i] = ptx::cvt_rn_x2<Type>(values[2 * i] * factor, values[2 * i + 1] * factor);
  }
}

}  // namespace swr::hopper
