// SPDX-License-Identifier: MIT
// From sums to C. Each warp writes its own 16 rows, panel by panel, to its staging slots and hands
// them to the copy engine, which leaves out what lies past the end of C. Nobody waits for the
// copies but the next use of a slot, so the next tile's products run meanwhile. Rows that the copy
// engine cannot write the warp stores itself. What is added to C comes through the same slots: the
// first panels under the products.
#pragma once

#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"
#include "gemm/element.cuh"
#include "gemm/hopper/config.h"
#include "gemm/hopper/pipeline.cuh"
#include "gemm/hopper/sums.cuh"
#include <swr/gemm_params.h>

namespace swr::hopper {

/// From sums to elements of C but for what is added to them, in place.
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
    finish_rows<C, C.tile_n>(sums[block], params, extras, job.batch, job.m + tile_row + lane_row(),
                             job.n, lane_column());
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

/// Calls `use(staged, row, column)` for this lane's pieces (of alignment_bytes) of a panel, whose
/// first of C are `row` and `column`, as far as they lie before row `row_end`: `staged` is the
/// piece's place in the staging slot.
template <HopperGemmConfig C, typename Use>
__device__ __forceinline__ void for_each_piece(unsigned staging, int row, int row_end, int column,
                                               int column_end, const Use& use) {
  constexpr int kPieces = C.c_box().swizzle_bytes / C.alignment_bytes;
  constexpr int kPieceColumns = C.alignment_bytes / C.output_bytes();
  // Rolled: the sums leave few registers.
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x % 32); i < 16 * kPieces; i += 32) {
    const int element_row = row + i / kPieces;
    const int element_column = column + i % kPieces * kPieceColumns;
    if (element_row < row_end && element_column < column_end) {
      const int byte = i % kPieces * C.alignment_bytes;
      use(staged_chunk<C>(staging, i / kPieces, byte / 16) + byte % 16, element_row,
          element_column);
    }
  }
}

/// A piece from shared to global memory.
template <int Bytes>
__device__ __forceinline__ void store_piece(char* global, unsigned staged) {
  if constexpr (Bytes == 16) {
    *reinterpret_cast<uint4*>(global) = ptx::ld_shared_v4_b32(staged);
  } else if constexpr (Bytes == 8) {
    *reinterpret_cast<uint2*>(global) = ptx::ld_shared_v2_b32(staged);
  } else if constexpr (Bytes == 4) {
    *reinterpret_cast<unsigned*>(global) = ptx::ld_shared_b32(staged);
  } else {
    *reinterpret_cast<unsigned short*>(global) = ptx::ld_shared_b16(staged);
  }
}

/// First row of C that the job does not compute.
template <HopperGemmConfig C>
__device__ __forceinline__ int row_end_of(const GemmParams& params, const GemmJob& job) {
  return C.is_grouped() ? job.row_end() : params.m;
}

/// One element of two bytes of a staged panel.
template <HopperGemmConfig C>
__device__ __forceinline__ unsigned staged_element(unsigned slot, int row, int column) {
  return ptx::ld_shared_b16(staged_chunk<C>(slot, row, column / 8) + column % 8 * 2);
}

/// As store_rows(), of elements of two bytes in rows that begin anywhere: whole words between a
/// row's first element, where it lies inside of a word, and its last. Panels may lie past the last
/// column.
template <HopperGemmConfig C>
__device__ __forceinline__ void store_words(unsigned staging, const GemmParams& params,
                                            const GemmJob& job, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int columns = min_of(C.c_panel_columns(), params.n - column);
  const int rows = min_of(16, row_end_of<C>(params, job) - row);
  unsigned short* line = static_cast<unsigned short*>(params.c) +
                         job.batch * params.c_strides.batch + row * params.c_strides.row + column;
  // Hardly unrolled: the sums leave few registers.
#pragma unroll C.mainloop == GemmMainloop::pingpong ? 1 : 2
  for (int i = 0; i < rows; ++i) {
    const int skipped = static_cast<int>(reinterpret_cast<unsigned long long>(line) / 2 % 2);
    const int first = 2 * lane + skipped;
    if (first + 1 < columns) {
      *reinterpret_cast<unsigned*>(line + first) =
          staged_element<C>(staging, i, first) | staged_element<C>(staging, i, first + 1) << 16;
    } else if (first < columns) {
      line[first] = static_cast<unsigned short>(staged_element<C>(staging, i, first));
    }
    if (skipped != 0 && lane == 0 && columns > 0) {
      line[0] = static_cast<unsigned short>(staged_element<C>(staging, i, 0));
    }
    line += params.c_strides.row;
  }
}

/// Copies those rows of a staged panel that lie before the job's end to C, by one warp. Its columns
/// start at `column`, its rows at `row`.
template <HopperGemmConfig C>
__device__ __forceinline__ void store_rows(unsigned staging, const GemmParams& params,
                                           const GemmJob& job, int row, int column) {
  for_each_piece<C>(staging, row, row_end_of<C>(params, job), column, params.n,
                    [&](unsigned staged, int element_row, int element_column) {
                      const long long index = job.batch * params.c_strides.batch +
                                              element_row * params.c_strides.row + element_column;
                      store_piece<C.alignment_bytes>(
                          static_cast<char*>(params.c) + index * C.output_bytes(), staged);
                    });
}

/// The part of request_addend() for whole pieces of 16 bytes. It stands among products, which wait
/// for it: lanes keep their column, so that a piece costs few instructions.
template <HopperGemmConfig C>
__device__ __forceinline__ void request_lines(unsigned staging, const GemmParams& params,
                                              const GemmExtras& extras, const GemmJob& job, int row,
                                              int column) {
  constexpr int kPieces = C.c_box().swizzle_bytes / 16;
  constexpr int kRows = 32 / kPieces;  // At once.
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = lane / kPieces;
  const int element_column = column + lane % kPieces * (16 / C.output_bytes());
  const char* const from = addend_line<C>(params, extras, job.batch, row + first, element_column);
  const int rows = element_column < params.n ? params.m - row - first : 0;
#pragma unroll
  for (int i = 0; i < 16; i += kRows) {
    if (i < rows) {
      ptx::cp_async<16>(staged_chunk<C>(staging, first + i, lane % kPieces),
                        from + i * C.output_bytes() * params.c_strides.row, 16);
    }
  }
}

/// Starts loading what is added to a warp's panel `panel` to its staging slot, by one warp, and
/// counts as one group of copies. The warp's first row is `row`.
template <HopperGemmConfig C>
__device__ __forceinline__ void request_addend(unsigned staging, const GemmParams& params,
                                               const GemmExtras& extras, const GemmJob& job,
                                               int row, int panel) {
  row += panel / C.c_panels() * 64;
  const int column = job.n + C.c_panel_column(panel % C.c_panels());
  if (params.beta == 0.0F) {
    // Nothing is read, as BLAS has it.
  } else if constexpr (C.alignment_bytes == 16) {
    request_lines<C>(staging, params, extras, job, row, column);
  } else {
    for_each_piece<C>(staging, row, params.m, column, params.n,
                      [&](unsigned staged, int element_row, int element_column) {
                        const char* const from =
                            addend_line<C>(params, extras, job.batch, element_row, element_column);
                        if constexpr (C.alignment_bytes >= 4) {
                          ptx::cp_async<C.alignment_bytes>(staged, from, C.alignment_bytes);
                        } else {
                          ptx::st_shared_b16(staged,
                                             *reinterpret_cast<const unsigned short*>(from));
                        }
                      });
  }
  ptx::cp_async_commit_group();
}

/// Panels that a warp stores one after the other: where something is added, those of all its blocks
/// of rows, so that slots are refilled across blocks. Of a tile that a cluster shares along k a
/// warp may have to write the second block alone.
template <HopperGemmConfig C>
inline constexpr int kPanelsAtOnce =
    (C.reads_c && C.cluster_k == 1 ? C.m_blocks() : 1) * C.c_panels();

/// Addends that are requested before the first panel is stored: one for each slot.
template <HopperGemmConfig C>
inline constexpr int kFirstAddends = min_of(C.staging_slots(), kPanelsAtOnce<C>);

/// These are requested under the products, where it is known that this warp will write.
template <HopperGemmConfig C>
inline constexpr bool kAddsEarly = C.reads_c && !C.split_k && C.cluster_k == 1;

/// Requests what is added to panels [requested, end) of the first of a warp whose first row is
/// `row`, to the slots from `slot` on.
template <HopperGemmConfig C>
__device__ __forceinline__ void request_addends(GemmMemory<C> smem, const GemmParams& params,
                                                const GemmExtras& extras, const GemmJob& job,
                                                int row, int slot, int& requested, int end) {
  const int warp = static_cast<int>(threadIdx.x - C.kWarpgroup) / 32;
#pragma unroll 1
  for (; requested < min_of(end, kFirstAddends<C>); ++requested) {
    if (requested == 0) {
      ptx::cp_async_bulk_wait_group_read<0>();
      __syncwarp();
    }
    request_addend<C>(smem.staging(warp, (slot + requested) % C.staging_slots()), params, extras,
                      job, row, requested);
  }
}

/// Adds what a staging slot holds to columns [First, ...) of a panel, which begins at `Column`.
template <HopperGemmConfig C, int Column, int First>
__device__ __forceinline__ void add_staged(unsigned slot, float (&sums)[C.tile_n / 2], float beta) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int group = (First - Column) / 16; group < C.c_panel_columns() / 16; ++group) {
    float* const s = &sums[Column / 2 + 8 * group];
    unsigned packed[4];
    if constexpr (C.output != OutputType::fp32) {
      ptx::ldmatrix_x4(packed, staged_chunk<C>(slot, lane % 16, 2 * group + lane / 16));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (16 * group + i / 4 * 8 < First - Column) {
        continue;  // Panels overlap by halves of 16 columns, too.
      }
      float added = 0.0F;
      if constexpr (C.output == OutputType::fp32) {
        const int column = 16 * group + i / 4 * 8 + lane_column() + i % 2;
        added = __uint_as_float(ptx::ld_shared_b32(
            staged_chunk<C>(slot, lane_row() + i / 2 % 2 * 8, column / 4) + column % 4 * 4));
      } else {
        added = load_output<C.output>(&packed[i / 2], i % 2);
      }
      s[i] = fmaf(beta, added, s[i]);
    }
  }
}

/// Stages and stores panels Panel, Panel + 1, ... of a warp whose first row is `first_row`. `slot`
/// is the staging slot used longest ago.
template <HopperGemmConfig C, int Panel = 0>
__device__ __forceinline__ void store_panels(float (*sums)[C.tile_n / 2], GemmMemory<C> smem,
                                             const GemmParams& params, const GemmExtras& extras,
                                             const TensorMap& c_map, const GemmJob& job,
                                             int first_row, int& slot) {
  if constexpr (Panel < kPanelsAtOnce<C>) {
    constexpr int kBlock = Panel / C.c_panels();
    constexpr int kOfBlock = Panel % C.c_panels();
    constexpr int kColumn = C.c_panel_column(kOfBlock);
    const int row = first_row + 64 * kBlock;
    if (kOfBlock == 0 && row >= row_end_of<C>(params, job)) {
      return;
    }
    const int warp = static_cast<int>(threadIdx.x - C.kWarpgroup) / 32;
    const unsigned staging = smem.staging(warp, slot);
    if constexpr (C.reads_c) {
      // The slot of the panel before takes the one that all slots are ahead.
      constexpr int kNext = Panel + C.staging_slots() - 1;
      if constexpr (Panel > 0 && kNext < kPanelsAtOnce<C>) {
        ptx::cp_async_bulk_wait_group_read<0>();
        __syncwarp();
        request_addend<C>(smem.staging(warp, (slot + kNext - Panel) % C.staging_slots()), params,
                          extras, job, first_row, kNext);
      }
      ptx::cp_async_wait_group<min_of(C.staging_slots(), kPanelsAtOnce<C> - Panel) - 1>();
      __syncwarp();
      if (params.beta != 0.0F) {
        // Columns that the panel before has, too, have been added to, and may have been written.
        constexpr int kDone =
            kOfBlock == 0 ? 0 : C.c_panel_column(kOfBlock - 1) + C.c_panel_columns();
        add_staged<C, kColumn, max_of(kColumn, kDone)>(staging, sums[kBlock], params.beta);
      }
    } else {
      ptx::cp_async_bulk_wait_group_read<C.staging_slots() - 1>();
    }
    __syncwarp();
    if constexpr (C.output == OutputType::fp8) {
      float scale[2];
      scale_output<C, C.c_panel_columns()>(scale, &sums[kBlock][kColumn / 2], params, extras,
                                           row + lane_row(), job.n + kColumn, lane_column());
      stage_fp8_panel<C, kColumn>(staging, sums[kBlock], scale);
    } else {
      stage_panel<C, kColumn>(staging, sums[kBlock]);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    const bool is_copied =
        !C.has_odd_rows() && (!C.is_grouped() || row + 16 <= row_end_of<C>(params, job));
    if constexpr (C.alignment_bytes == 2) {
      store_words<C>(staging, params, job, row, job.n + kColumn);
    } else if (!is_copied) {
      store_rows<C>(staging, params, job, row, job.n + kColumn);
    }
    if (ptx::elect_sync()) {
      if (is_copied) {
        ptx::cp_async_bulk_tensor_3d_shared_to_global(
            c_map, ptx::MatrixCorner{job.n + kColumn, row, job.batch}, staging);
      }
      ptx::cp_async_bulk_commit_group();  // Groups count the uses of slots, also without a copy.
    }
    slot = (slot + 1) % C.staging_slots();
    store_panels<C, Panel + 1>(sums, smem, params, extras, c_map, job, first_row, slot);
  }
}

/// Starts the stores of all of a consumer's sums. Of what is added to them `requested` panels have
/// been; none afterwards.
template <HopperGemmConfig C>
__device__ __forceinline__ void store_sums(GemmSums<C>& sums, GemmMemory<C> smem,
                                           const GemmParams& params, const GemmExtras& extras,
                                           const TensorMap& c_map, const GemmJob& job,
                                           int first_row, int& slot, int& requested) {
#pragma unroll
  for (int block = 0; block < C.m_blocks(); block += kPanelsAtOnce<C> / C.c_panels()) {
    const int tile_row = first_row + 64 * block + warp_row();
    if (writes_rows<C>(tile_row)) {
      const int row = job.m + tile_row;
      if constexpr (C.reads_c) {
        request_addends<C>(smem, params, extras, job, row, slot, requested, kFirstAddends<C>);
        requested = 0;
      }
      store_panels<C>(&sums[block], smem, params, extras, c_map, job, row, slot);
    }
  }
}

}  // namespace swr::hopper
