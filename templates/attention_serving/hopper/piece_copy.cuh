// SPDX-License-Identifier: MIT
// A piece of a K or V tile of which some rows may not be read, copied by the lanes of a warp: the
// copy engine cannot leave them out of a box of all panels. There are at most two of a Q tile.
#pragma once

#include "attention_serving/hopper/config.h"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"

namespace swr::serving {

/// Rows `live` of the piece's C.piece_rows, whose first is at `global`, to octets at `shared`; the
/// others become zeros.
template <HopperServingConfig C>
__device__ __forceinline__ void copy_piece(unsigned shared, const char* global,
                                           long long row_stride_bytes, KeyRange live, int lane) {
  constexpr int kChunks = C.head_dim / 8;  // Of 16 bytes, in a row.
#pragma unroll 4
  for (int i = lane; i < C.piece_rows * kChunks; i += 32) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const auto* const source =
        reinterpret_cast<const uint4*>(global + row * row_stride_bytes + chunk * 16);
    ptx::st_shared(shared + C.octet_offset(row, chunk),
                   live.contains(row) ? *source : make_uint4(0, 0, 0, 0));
  }
}

}  // namespace swr::serving
