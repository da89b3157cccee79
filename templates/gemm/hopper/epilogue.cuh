// SPDX-License-Identifier: MIT
// From sums to C. Each warp writes its own 16 rows, panel by panel, to its staging slots and hands
// them to the copy engine, which leaves out what lies past the end of C. Nobody waits for the
// copies but the next use of a slot, so the next tile's products run meanwhile.
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "gemm/element.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/sums.cuh"
#include <swr/gemm_params.h>

namespace swr::hopper {

/// From sums to elements of C, in place. All of C's old elements are read before any is written.
template <HopperGemmConfig C>
__device__ __forceinline__ void scale_sums(GemmSums<C>& sums, const GemmParams& params,
                                           const GemmExtras& extras, const GemmJob& job,
                                           int first_row) {
#pragma unroll
  for (int block = 0; block < C.m_blocks(); ++block) {
    const int tile_row = first_row + 64 * block + warp_row();
    if (!writes_rows<C>(tile_row)) {
      continue;
    }
    const int row = job.m + tile_row + lane_row();
    if constexpr (C.takes_extras()) {
      finish_rows<C, C.tile_n>(sums[block], params, extras, job.batch, row, job.n, lane_column());
    } else {
#pragma unroll
      for (int i = 0; i < C.tile_n / 2; ++i) {
        sums[block][i] *= params.alpha;
        if constexpr (C.reads_c) {
          const int element_row = row + i % 4 / 2 * 8;
          const int column = job.n + i / 4 * 8 + lane_column() + i % 2;
          if (params.beta != 0.0F && element_row < params.m && column < params.n) {
            const long long index =
                job.batch * params.c_strides.batch + element_row * params.c_strides.row + column;
            sums[block][i] += params.beta * load_output<C.output>(params.c, index);
          }
        }
      }
    }
  }
}

/// Shared address of 16-byte chunk `chunk` of row `row` of a staged panel: the hardware's swizzle,
/// written out.
template <HopperGemmConfig C>
__device__ __forceinline__ unsigned staged_chunk(unsigned slot, int row, int chunk) {
  constexpr int kLine = C.c_box().swizzle_bytes;
  constexpr int kChunks = kLine / 16;
  return slot + row * kLine + ((chunk ^ (row / (8 / kChunks) & (kChunks - 1))) * 16);
}

/// Writes a panel of one block, columns from `Column` on, to a staging slot. C of FP8.
template <HopperGemmConfig C, int Column>
__device__ __forceinline__ void stage_fp8_panel(unsigned slot, const float (&sums)[C.tile_n / 2],
                                                const float (&scale)[2]) {
#pragma unroll
  for (int pair = 0; pair < C.c_panel_columns() / 4; ++pair) {
    const int half = pair % 2;
    const int column = pair / 2 * 8 + lane_column();
    const float* const s = &sums[Column / 2 + 2 * pair];
    ptx::st_shared_b16(staged_chunk<C>(slot, lane_row() + 8 * half, column / 16) + column % 16,
                       ptx::cvt_rn_satfinite_e4m3x2(s[0] * scale[half], s[1] * scale[half]));
  }
}

/// The same of the other types.
template <HopperGemmConfig C, int Column>
__device__ __forceinline__ void stage_panel(unsigned slot, const float (&sums)[C.tile_n / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int group = 0; group < C.c_panel_columns() / 16; ++group) {
    const float* const s = &sums[Column / 2 + 8 * group];
    if constexpr (C.output == OutputType::fp32) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const int row = lane_row() + pair % 2 * 8;
        const int column = 16 * group + pair / 2 * 8 + lane_column();
        ptx::st_shared(staged_chunk<C>(slot, row, column / 4) + column % 4 * 4,
                       make_float2(s[2 * pair], s[2 * pair + 1]));
      }
    } else {
      ptx::stmatrix_x4(staged_chunk<C>(slot, lane % 16, 2 * group + lane / 16),
                       pack_output<C.output>(s[0], s[1]), pack_output<C.output>(s[2], s[3]),
                       pack_output<C.output>(s[4], s[5]), pack_output<C.output>(s[6], s[7]));
    }
  }
}

/// Copies those rows of a staged panel that lie before the job's end to C, by one warp. Its columns
/// start at `column`, its rows at `row`.
template <HopperGemmConfig C>
__device__ __forceinline__ void store_rows(unsigned staging, const GemmParams& params,
                                           const GemmJob& job, int row, int column) {
  constexpr int kChunks = C.c_box().swizzle_bytes / 16;
  constexpr int kChunkColumns = 16 / C.output_bytes();
  // Rolled: the sums of the panels to come leave few registers.
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x % 32); i < 16 * kChunks; i += 32) {
    const int element_row = row + i / kChunks;
    const int element_column = column + i % kChunks * kChunkColumns;
    if (element_row < job.row_end() && element_column < params.n) {
      const long long index =
          job.batch * params.c_strides.batch + element_row * params.c_strides.row + element_column;
      *reinterpret_cast<uint4*>(static_cast<char*>(params.c) + index * C.output_bytes()) =
          ptx::ld_shared_v4_b32(staged_chunk<C>(staging, i / kChunks, i % kChunks));
    }
  }
}

/// Stages and stores panels Panel, Panel + 1, ... of one block whose first row, of this warp, is
/// `row`. `slot` is the staging slot used longest ago.
template <HopperGemmConfig C, int Panel = 0>
__device__ __forceinline__ void store_panels(const float (&sums)[C.tile_n / 2], GemmMemory<C> smem,
                                             const GemmParams& params, const GemmExtras& extras,
                                             const TensorMap& c_map, const GemmJob& job, int row,
                                             int& slot) {
  if constexpr (Panel < C.c_panels()) {
    constexpr int kColumn = C.c_panel_column(Panel);
    const int warp = static_cast<int>(threadIdx.x - C.kWarpgroup) / 32;
    const unsigned staging = smem.staging(warp, slot);
    ptx::cp_async_bulk_wait_group_read<C.kStagingSlots - 1>();
    __syncwarp();
    if constexpr (C.output == OutputType::fp8) {
      float scale[2];
      scale_output<C, C.c_panel_columns()>(scale, &sums[kColumn / 2], params, extras,
                                           row + lane_row(), job.n + kColumn, lane_column());
      stage_fp8_panel<C, kColumn>(staging, sums, scale);
    } else {
      stage_panel<C, kColumn>(staging, sums);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    const bool is_whole = !C.is_grouped() || row + 16 <= job.row_end();
    if (!is_whole) {
      store_rows<C>(staging, params, job, row, job.n + kColumn);
    }
    if (ptx::elect_sync()) {
      if (is_whole) {
        ptx::cp_async_bulk_tensor_3d_shared_to_global(
            c_map, ptx::MatrixCorner{job.n + kColumn, row, job.batch}, staging);
      }
      ptx::cp_async_bulk_commit_group();  // Groups count the uses of slots, also without a copy.
    }
    slot = (slot + 1) % C.kStagingSlots;
    store_panels<C, Panel + 1>(sums, smem, params, extras, c_map, job, row, slot);
  }
}

/// Starts the stores of all of a consumer's sums.
template <HopperGemmConfig C>
__device__ __forceinline__ void store_sums(const GemmSums<C>& sums, GemmMemory<C> smem,
                                           const GemmParams& params, const GemmExtras& extras,
                                           const TensorMap& c_map, const GemmJob& job,
                                           int first_row, int& slot) {
#pragma unroll
  for (int block = 0; block < C.m_blocks(); ++block) {
    const int tile_row = first_row + 64 * block + warp_row();
    const int row = job.m + tile_row;
    if (row < (C.is_grouped() ? job.row_end() : params.m) && writes_rows<C>(tile_row)) {
      store_panels<C>(sums[block], smem, params, extras, c_map, job, row, slot);
    }
  }
}

}  // namespace swr::hopper
