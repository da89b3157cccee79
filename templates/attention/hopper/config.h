// SPDX-License-Identifier: MIT
// Everything of a Hopper attention kernel that is fixed when it is compiled. Host code
// (constraints, launch, tensor maps) and the kernel derive every size from these functions.
#pragma once

#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/tensor_map.h>

namespace swr {

/// One warpgroup loads by TMA; tile_m / 64 consumer warpgroups compute 64 query rows each.
///
/// Tiles lie in shared memory as panels: all rows of `panel_columns()` columns, one swizzled line
/// per row. Launch: `threads()` threads, `smem_bytes()` of dynamic shared memory.
struct HopperAttentionConfig {
  int head_dim;  ///< A multiple of 16, at most 256.
  DType dtype;
  bool causal;
  int tile_m;  ///< 64, 128 or 192.
  int tile_n;  ///< A multiple of 16.
  int stages;  ///< K tiles in shared memory, and V tiles.
  Mainloop mainloop;
  Order order;
  Persistence persistence;
  POperand p_operand;
  int exp2_fma_eighths;  ///< Of every eight exponentials, how many the FMA pipe computes; 0 to 4.
  int unroll;            ///< Of the loop over tiles without a mask.
  /// K and V tiles lie as octets, 8 rows of all panels each, instead of as panels: rows that are
  /// brought together are then contiguous in shared memory, and one box brings them.
  bool kv_octets = false;
  /// Scores are at most 1 and at least -1, times a cap, and numerators have the range of fp32.
  bool capped_scores = false;

  static constexpr int kSmemLimitBytes = 232448;  ///< Opt-in limit of one CTA on sm_90.
  static constexpr int kWarpgroup = 128;

  SWR_HD constexpr int consumers() const { return tile_m / 64; }
  SWR_HD constexpr int threads() const { return (consumers() + 1) * kWarpgroup; }

  /// head_dim as stored in shared memory; the copy engine fills the columns past head_dim with 0.
  SWR_HD constexpr int padded_head_dim() const { return (head_dim + 31) / 32 * 32; }
  SWR_HD constexpr int panel_columns() const { return padded_head_dim() % 64 == 0 ? 64 : 32; }
  SWR_HD constexpr int panels() const { return padded_head_dim() / panel_columns(); }

  /// Box of the maps of q and o: the rows of one consumer.
  SWR_HD constexpr TensorBox q_box() const { return {panel_columns(), 64, panel_columns() * 2}; }
  /// Box of the maps of k and v.
  SWR_HD constexpr TensorBox kv_box() const {
    return {panel_columns(), tile_n, panel_columns() * 2};
  }

  /// From one panel of a K or V tile to the next, and from eight rows of it to the next eight.
  SWR_HD constexpr int kv_panel_bytes() const {
    return (kv_octets ? 8 : tile_n) * panel_columns() * 2;
  }
  SWR_HD constexpr int kv_octet_bytes() const {
    return 8 * panel_columns() * 2 * (kv_octets ? panels() : 1);
  }

  /// Columns of P per panel when P passes through shared memory.
  SWR_HD constexpr int p_panel_columns() const {
    return tile_n % 64 == 0 ? 64 : tile_n % 32 == 0 ? 32 : 16;
  }

  SWR_HD constexpr int q_tile_bytes() const { return tile_m * padded_head_dim() * 2; }
  SWR_HD constexpr int kv_tile_bytes() const { return tile_n * padded_head_dim() * 2; }
  SWR_HD constexpr int p_tile_bytes() const {
    return p_operand == POperand::shared ? tile_m * tile_n * 2 : 0;
  }

  /// Q tiles in shared memory. With two, the next one is loaded early, and O leaves through the
  /// slot of its own Q tile.
  SWR_HD constexpr int q_slots() const {
    const bool two_fit = 2 * q_tile_bytes() + streamed_bytes() + kControlBytes <= kSmemLimitBytes;
    return persistence != Persistence::grid && two_fit ? 2 : 1;
  }

  // Offsets in dynamic shared memory, which starts at a multiple of 1024 bytes.
  SWR_HD constexpr int q_offset() const { return 0; }
  SWR_HD constexpr int k_offset() const { return q_slots() * q_tile_bytes(); }
  SWR_HD constexpr int v_offset() const { return k_offset() + stages * kv_tile_bytes(); }
  SWR_HD constexpr int p_offset() const { return v_offset() + stages * kv_tile_bytes(); }
  /// One entry of the work list per Q slot, then the barriers.
  SWR_HD constexpr int scan_offset() const { return p_offset() + p_tile_bytes(); }
  SWR_HD constexpr int barrier_offset() const { return scan_offset() + 2 * kScanBytes; }
  SWR_HD constexpr int smem_bytes() const { return scan_offset() + kControlBytes; }

  /// Registers per thread after the warpgroups have traded them (setmaxnreg): the CTA owns what its
  /// threads had at entry. Loading needs few; more when a tile has many panels.
  SWR_HD constexpr int producer_registers() const {
    return consumers() == 3 ? 32 : panels() > 3 ? 40 : 24;
  }
  SWR_HD constexpr int consumer_registers() const {
    return consumers() == 3 ? 160 : panels() > 3 ? 232 : 240;
  }
  SWR_HD constexpr bool trades_registers() const { return consumers() > 1; }

  /// Registers per thread before the trade. ptxas compiles every instruction within them.
  SWR_HD constexpr int entry_registers() const {
    constexpr int kOfAnSm = 65536;
    constexpr int kGranularity = 8;
    constexpr int kOfAThread = 255;
    const int share = kOfAnSm / threads() / kGranularity * kGranularity;
    return share < kOfAThread ? share : kOfAThread;
  }
  /// Registers per thread of the widest product's result: S or O.
  SWR_HD constexpr int product_registers() const {
    return (padded_head_dim() > tile_n ? padded_head_dim() : tile_n) / 2;
  }

  /// True when QK of the next tile runs while this tile's PV does.
  SWR_HD constexpr bool overlaps() const {
    return mainloop == Mainloop::overlap || mainloop == Mainloop::overlap_ordered;
  }

  /// True when the first product of a Q tile overlaps the last one of the Q tile before.
  SWR_HD constexpr bool chains_q_tiles() const { return overlaps() && q_slots() == 2; }

  /// Where the overlapped main loops bring O to the new maximum: a wide O takes long enough to hide
  /// behind QK; a narrow one is scaled right after PV, when its registers are at hand.
  SWR_HD constexpr bool rescales_before_p_v() const { return overlaps() && head_dim > 128; }

  /// Registers per thread held across the main loop: O, S and, with P in registers and overlap, P.
  SWR_HD constexpr int accumulator_registers() const {
    const int p = p_operand == POperand::registers && overlaps() ? tile_n / 4 : 0;
    return padded_head_dim() / 2 + tile_n / 2 + p;
  }

  static constexpr int kScanBytes = 32;
  static constexpr int kControlBytes = 2 * kScanBytes + 256;

 private:
  SWR_HD constexpr int streamed_bytes() const {
    return 2 * stages * kv_tile_bytes() + p_tile_bytes();
  }
};

}  // namespace swr
