// SPDX-License-Identifier: MIT
// Everything of an attention kernel that is fixed when it is compiled. The generator writes one
// object of this struct per variant; host code and kernel derive sizes from the same functions.
#pragma once

#include "common/smem_layout.h"
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/tensor_map.h>

namespace swr {

/// Launch-time choices (swizzle, section_heads, workers, the number of splits) are not here, so
/// variants that differ only in those share one cubin.
struct PortableAttentionConfig {
  int head_dim;
  DType dtype;
  bool causal;
  int alignment_bytes;
  int tile_m;
  int tile_n;
  int warps;
  int stages;
  Order order;
  Persistence persistence;
  bool smem_swizzle;
  bool split_kv = false;  ///< A Q tile's K and V tiles are dealt to several CTAs.
  bool pack_gqa = false;  ///< Query heads of one K and V head share Q tiles.
  KvCopy kv_copy = KvCopy::cp_async;
  /// Warpgroups multiply, which read Q, K and V from panels; of attention for servers alone.
  bool wgmma = false;

  SWR_HD constexpr int threads() const { return warps * 32; }

  /// Warps that take the same rows and divide the keys of every tile: more than one where the Q
  /// tile has fewer than 16 rows a warp, as decoding wants it.
  SWR_HD constexpr int key_groups() const {
    const int blocks = tile_m / 16;
    return blocks > 0 && blocks < warps ? warps / blocks : 1;
  }
  /// Warps of different rows.
  SWR_HD constexpr int row_warps() const { return warps / key_groups(); }
  /// 16-row blocks that one warp owns, and the keys of a tile that it takes.
  SWR_HD constexpr int m_blocks() const { return tile_m / (16 * row_warps()); }
  SWR_HD constexpr int warp_keys() const { return tile_n / key_groups(); }

  SWR_HD constexpr bool uses_tma() const { return kv_copy == KvCopy::tma; }

  /// The copy engine writes K and V as panels of 64 columns, or of 32 where those fit head_dim
  /// better, and fills the columns past head_dim with 0. Otherwise a row is one panel, but where
  /// warpgroups multiply.
  SWR_HD constexpr int kv_panel_columns() const {
    return !uses_tma() && !wgmma ? head_dim : (head_dim + 31) / 32 % 2 == 0 ? 64 : 32;
  }
  SWR_HD constexpr int kv_panels() const {
    return (head_dim + kv_panel_columns() - 1) / kv_panel_columns();
  }
  SWR_HD constexpr TileLayout kv_layout() const {
    return {tile_n, kv_panel_columns() * 2 / kChunkBytes, smem_swizzle};
  }
  SWR_HD constexpr TileLayout q_layout() const {
    return {tile_m, copied_panel_columns() * 2 / kChunkBytes, smem_swizzle};
  }
  /// Columns of a panel of tiles that threads copy.
  SWR_HD constexpr int copied_panel_columns() const {
    return wgmma ? kv_panel_columns() : head_dim;
  }
  /// Box of the maps of k and v; without columns where there are none.
  SWR_HD constexpr TensorBox kv_box() const {
    return uses_tma() ? TensorBox{kv_panel_columns(), tile_n, kv_panel_columns() * 2} : TensorBox{};
  }

  SWR_HD constexpr int q_tile_bytes() const { return tile_m * head_dim * 2; }
  SWR_HD constexpr int kv_tile_bytes() const { return kv_panels() * kv_layout().panel_bytes(); }

  /// Dynamic shared memory: the Q tile, then `stages` K tiles, then `stages` V tiles, then what
  /// registers have no room for, then mbarriers.
  SWR_HD constexpr int smem_bytes() const {
    return barriers_offset() + (uses_tma() ? 4 * stages * kBarrierBytes : 0);
  }
  SWR_HD constexpr int kv_offset() const {
    return uses_tma()
               ? (q_tile_bytes() + kTmaTileAlignment - 1) / kTmaTileAlignment * kTmaTileAlignment
               : q_tile_bytes();
  }
  SWR_HD constexpr int parked_offset() const {
    const int rings_end = kv_offset() + 2 * stages * kv_tile_bytes();
    return rings_end < group_results_bytes() ? group_results_bytes() : rings_end;
  }
  /// What key groups leave where Q, K and V lay: rows of O in fp32, each followed by its shift and
  /// sum and by padding that spreads the rows over the banks.
  SWR_HD constexpr int group_results_bytes() const {
    return key_groups() == 1 ? 0 : key_groups() * tile_m * group_row_bytes();
  }
  SWR_HD constexpr int group_row_bytes() const { return (head_dim + 8) * 4; }
  SWR_HD constexpr int barriers_offset() const {
    return parked_offset() + (parks_work() ? kParkedBytes : 0);
  }
  static constexpr int kBarrierBytes = 8;
  /// The swizzle of 128-byte lines repeats every 1024 bytes and goes by address.
  static constexpr int kTmaTileAlignment = 1024;

  /// Registers a thread may use so that one CTA still fits an SM of 64K registers.
  SWR_HD constexpr int register_limit() const {
    const int share = 65536 / threads() / 8 * 8;
    return share < 255 ? share : 255;
  }

  /// Registers per thread held across the main loop: fp32 scores and output.
  SWR_HD constexpr int accumulator_registers() const {
    return m_blocks() * (warp_keys() / 2 + head_dim / 2);
  }

  /// Q fragments stay in registers when they fit beside the accumulators and about 80 registers
  /// for operands, addresses and softmax state; otherwise they are read again from shared memory.
  SWR_HD constexpr bool q_in_registers() const {
    return accumulator_registers() + m_blocks() * head_dim / 4 + 80 <= register_limit();
  }

  /// Which Q tile it is and where its K and V lie wait in shared memory when accumulators and Q
  /// fragments leave few registers: ptxas of CUDA 13.0 spills about a dozen from here on.
  SWR_HD constexpr bool parks_work() const {
    const int q_registers = m_blocks() * (q_in_registers() ? head_dim / 4 : 4);
    return accumulator_registers() + q_registers > 150;
  }
  static constexpr int kParkedBytes = 32;

  /// Q tiles that are longer than their rows are usual where splits and packed heads pay: warps
  /// without rows copy, but do not compute.
  SWR_HD constexpr bool has_idle_warps() const {
    return (split_kv || pack_gqa) && row_warps() > 1 && !wgmma;
  }

  /// L2 fetches the first K and V tiles while the launch before still ends: in decoding, where a
  /// launch takes as long as memory does and no other CTA reads the same tiles.
  SWR_HD constexpr bool prefetches_kv() const {
    return (split_kv || pack_gqa || key_groups() > 1) && !uses_tma();
  }

  /// fp32 values that a split leaves of a Q tile: unnormalised rows of O, and per row the shift of
  /// its exponentials and their sum.
  SWR_HD constexpr int partial_floats() const { return tile_m * (head_dim + 2); }
};

}  // namespace swr
