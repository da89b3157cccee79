// SPDX-License-Identifier: MIT
// Everything of a Hopper GEMM kernel that is fixed when it is compiled. Host code (constraints,
// launch, tensor maps) and the kernel derive every size from these functions.
#pragma once

#include "common/gemm_groups.h"
#include "common/gemm_schedule.h"
#include <swr/annotations.h>
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>
#include <swr/tensor_map.h>

namespace swr {

/// One warpgroup loads by TMA, one to three compute with wgmma.
///
/// Tiles of A and B lie in shared memory as panels: lines of 128 bytes (64 elements, 128 of FP8),
/// swizzled. An operand contiguous along k has one line per row of the tile in each panel; one
/// contiguous along m or n has a panel per 64 rows of the tile, with one line per k. FP8 is
/// multiplied only where both are contiguous along k. Results leave through staging slots, of which
/// each computing warp owns a few.
///
/// TMA asks for addresses that are multiples of 16 bytes: of A, B and C, their rows and their batch
/// items. It also writes whole 16 bytes at the end of a row of C, so that n must fill them. Kernels
/// for other matrices (alignment_bytes below 16) have the computing warps store C. A launch of
/// theirs first copies A and B, where the copy engine cannot take them, to rows that it can.
struct HopperGemmConfig {
  DType dtype;  ///< Of A and B.
  OutputType output;
  GemmLayout layout;
  bool reads_c;  ///< beta may differ from 0.
  int tile_m;    ///< 64 to 256, whole 64-row blocks per consumer.
  int tile_n;    ///< A multiple of 8 from 16 to 256.
  int tile_k;    ///< One or two lines.
  int stages;    ///< Tiles of A, and of B, in shared memory.
  GemmMainloop mainloop;
  int consumers;  ///< Computing warpgroups, 1 to 3; pingpong has 2.
  int cluster_m;  ///< CTAs that share a tile of B. A cluster extends along one axis at most.
  int cluster_n;  ///< CTAs that share a tile of A.
  /// CTAs that share a tile of C along k; above 1 each computes one tile (grid, cooperative).
  int cluster_k;
  Persistence persistence;
  Order k_order;
  bool split_k;
  Scaling scaling = Scaling::none;
  /// Elements of k that the tensor cores sum before fp32 takes over, whole k-blocks; 0: all.
  int promote_every = 0;
  bool has_bias = false;
  Activation activation = Activation::none;
  bool gated = false;  ///< B has the rows of the gate, then as many of `up` (nt).
  Scaling output_scaling = Scaling::none;  ///< Of a C of e4m3: tensor or block.
  GemmGroups groups = GemmGroups::none;
  /// Of C's address and batch items, of its rows and of where they end: 2, 4, 8, or 16 for TMA.
  int alignment_bytes = 16;

  static constexpr bool kTakesMaps = true;
  static constexpr int kSmemLimitBytes = 232448;  ///< Opt-in limit of one CTA on sm_90.
  static constexpr int kWarpgroup = 128;
  static constexpr int kLineBytes = 128;

  SWR_HD constexpr int element_bytes() const { return swr::element_bytes(dtype); }
  SWR_HD constexpr int panel_columns() const { return kLineBytes / element_bytes(); }
  /// Elements of k that one wgmma multiplies.
  SWR_HD constexpr int product_depth() const { return 32 / element_bytes(); }

  SWR_HD constexpr bool a_along_k() const { return layout != GemmLayout::tn; }
  SWR_HD constexpr bool b_along_k() const { return layout == GemmLayout::nt; }
  SWR_HD constexpr int output_bytes() const { return swr::output_bytes(output); }
  /// Columns of C of a tile, which has tile_n of the product.
  SWR_HD constexpr int c_columns() const { return gated ? tile_n / 2 : tile_n; }
  /// k-blocks that the tensor cores sum; 0: all.
  SWR_HD constexpr int promote_steps() const { return promote_every / tile_k; }

  /// Computing warps store C, and launches may copy A and B.
  SWR_HD constexpr bool has_odd_rows() const { return alignment_bytes < 16; }

  SWR_HD constexpr bool is_grouped() const { return groups != GemmGroups::none; }
  /// The loading warp sums up the rows of all items before it loads.
  SWR_HD constexpr bool counts_groups() const {
    return is_grouped() && groups != GemmGroups::contiguous;
  }

  SWR_HD constexpr int threads() const { return (consumers + 1) * kWarpgroup; }
  SWR_HD constexpr int ctas_per_cluster() const { return cluster_m * cluster_n * cluster_k; }
  /// CTAs that load into a stage of each of them.
  SWR_HD constexpr int ctas_per_stage() const { return cluster_m * cluster_n; }

  /// Rows of a tile that one consumer computes, as blocks of the 64 that one wgmma takes.
  SWR_HD constexpr int consumer_rows() const {
    return mainloop == GemmMainloop::pingpong ? tile_m : tile_m / consumers;
  }
  SWR_HD constexpr int m_blocks() const { return consumer_rows() / 64; }
  /// fp32 sums per thread; sums of a part of k are those of one block of 64 rows.
  SWR_HD constexpr int accumulator_registers() const {
    return (m_blocks() + (promote_every > 0 ? 1 : 0)) * tile_n / 2;
  }

  /// Rows of B's tile as stored: whole panels when B is contiguous along n.
  SWR_HD constexpr int stored_tile_n() const {
    return b_along_k() ? tile_n : ceil_div(tile_n, panel_columns()) * panel_columns();
  }
  SWR_HD constexpr int a_tile_bytes() const { return tile_m * tile_k * element_bytes(); }
  SWR_HD constexpr int b_tile_bytes() const { return stored_tile_n() * tile_k * element_bytes(); }
  SWR_HD constexpr int stage_bytes() const { return a_tile_bytes() + b_tile_bytes(); }

  /// Rows of A's tile that are loaded. When C has fewer rows than a tile the others keep what they
  /// held, which reaches no row of C: the copy engine takes about 5 ns for every line of zeros.
  SWR_HD constexpr int loaded_a_rows(int m) const {
    return a_along_k() && cluster_n == 1 ? min_of(tile_m, m) : tile_m;
  }
  SWR_HD constexpr int loaded_bytes(int m) const {
    return loaded_a_rows(m) * tile_k * element_bytes() + b_tile_bytes();
  }

  /// Boxes that one CTA loads at once; CTAs that share a tile load one part of each panel each. Of
  /// a gated B a box has the rows of the gate, or of `up`.
  SWR_HD constexpr TensorBox a_box(int m) const {
    return {panel_columns(), (a_along_k() ? loaded_a_rows(m) : tile_k) / cluster_n, kLineBytes};
  }
  SWR_HD constexpr TensorBox b_box() const {
    return {panel_columns(), gated ? tile_n / 2 : (b_along_k() ? tile_n : tile_k) / cluster_m,
            kLineBytes};
  }

  /// Bytes of a row of C that leave at once. Stages with scales of blocks may leave less room.
  SWR_HD constexpr int c_line_bytes() const {
    const bool may_be_short = scaling == Scaling::block && output != OutputType::fp8;
    const int wanted = consumers * 4 * kLeastSlots * 16 * kLineBytes;
    return may_be_short && staging_offset() + wanted + bytes_beside_tiles() > kSmemLimitBytes
               ? 64
               : kLineBytes;
  }
  /// Columns of C that leave at once: a line of at most 128 bytes. When they do not divide tile_n,
  /// the last panel overlaps the one before.
  SWR_HD constexpr int c_panel_columns() const {
    const int widest = c_line_bytes() / output_bytes();
    return c_columns() >= widest ? widest : c_columns() >= 32 ? 32 : 16;
  }
  SWR_HD constexpr int c_panels() const { return ceil_div(c_columns(), c_panel_columns()); }
  SWR_HD constexpr int c_panel_column(int panel) const {
    return min_of(panel * c_panel_columns(), c_columns() - c_panel_columns());
  }
  /// Box of the map of C: a panel of one warp's 16 rows.
  SWR_HD constexpr TensorBox c_box() const {
    return {c_panel_columns(), 16, c_panel_columns() * output_bytes()};
  }

  // Offsets in dynamic shared memory, which starts at a multiple of 1024 bytes.
  SWR_HD constexpr int a_offset(int stage) const { return stage * a_tile_bytes(); }
  SWR_HD constexpr int b_offset(int stage) const {
    return stages * a_tile_bytes() + stage * b_tile_bytes();
  }
  /// The stages; sums of a whole tile take their place where a cluster exchanges them.
  SWR_HD constexpr int staging_offset() const {
    const int sums_bytes = cluster_k > 1 ? tile_m * tile_n * 4 : 0;
    return max_of(stages * stage_bytes(), sums_bytes);
  }
  SWR_HD constexpr int staging_bytes() const {
    return consumers * 4 * staging_slots() * staging_slot_bytes();
  }
  SWR_HD constexpr int work_offset() const { return staging_offset() + staging_bytes(); }
  SWR_HD constexpr int barrier_offset() const { return work_offset() + kWorkSlots * kWorkBytes; }
  /// Full and empty for each stage and each slot of the work list, then a word per consumer.
  SWR_HD constexpr int vote_offset() const { return barrier_offset() + 16 * (stages + kWorkSlots); }
  /// Arrivals of a consumer that has read a stage: of each warp where warps read scales, which
  /// products do not wait for.
  SWR_HD constexpr int arrivals_per_reader() const { return scaling == Scaling::block ? 4 : 1; }
  /// With Scaling::block the scales of the rows of each stage follow.
  SWR_HD constexpr int scale_bytes() const { return scaling == Scaling::block ? tile_m * 4 : 0; }
  SWR_HD constexpr int groups_offset() const { return vote_offset() + 4 * consumers; }
  SWR_HD constexpr int groups_end() const {
    return groups_offset() + (counts_groups() ? 4 * kMostGroups : 0);
  }
  SWR_HD constexpr int scales_offset() const { return ceil_div(groups_end(), 16) * 16; }
  SWR_HD constexpr int smem_bytes() const {
    return scale_bytes() > 0 ? scales_offset() + stages * scale_bytes() : groups_end();
  }

  /// Registers per thread after the warpgroups have traded them (setmaxnreg): the CTA owns what its
  /// threads had at entry.
  SWR_HD constexpr bool trades_registers() const { return consumers > 1; }
  SWR_HD constexpr int producer_registers() const {
    // Threads that find the largest of 128 columns want some more beside their sums.
    const int most_of_few = output_scaling == Scaling::block ? 120 : split_k ? 192 : 160;
    return accumulator_registers() > 192 ? 24 : accumulator_registers() > most_of_few ? 40 : 56;
  }
  SWR_HD constexpr int consumer_registers() const {
    const int of_all = 65536 / threads() / 8 * 8 * (consumers + 1);
    return (of_all - producer_registers()) / consumers / 8 * 8;
  }

  /// Slots of a warp's staging area: one is filled while the copy engine reads the others. What the
  /// stages leave of shared memory becomes slots where that was measured to pay, and no other CTA
  /// can use it.
  SWR_HD constexpr int staging_slots() const {
    const int fitting = (kSmemLimitBytes - staging_offset() - bytes_beside_tiles()) /
                        (consumers * 4 * staging_slot_bytes());
    const bool waits_for_slots = reads_c || scaling == Scaling::block;
    return waits_for_slots && consumers > 1
               ? max_of(kLeastSlots, min_of(fitting, m_blocks() * c_panels()))
               : kLeastSlots;
  }
  static constexpr int kLeastSlots = 2;
  /// Of shared memory, but for stages and staging; at most 16 less are used.
  SWR_HD constexpr int bytes_beside_tiles() const {
    return kWorkSlots * (kWorkBytes + 16) + 16 * stages + 4 * consumers +
           (counts_groups() ? 4 * kMostGroups : 0) + 16 + stages * scale_bytes();
  }
  SWR_HD constexpr int staging_slot_bytes() const { return 16 * c_line_bytes(); }
  /// Work that the loading thread may be ahead of the consumers.
  static constexpr int kWorkSlots = 4;
  static constexpr int kWorkBytes = 32;

  SWR_HD constexpr GemmSchedule schedule(const GemmParams& params) const {
    return {.m = params.m,
            .n = gated ? 2 * params.n : params.n,
            .k = params.k,
            .batch = params.batch,
            .tile_m = tile_m,
            .tile_n = tile_n,
            .tile_k = tile_k,
            .cluster_m = cluster_m,
            .cluster_n = cluster_n,
            .cluster_k = cluster_k,
            .splits = split_k ? params.splits : 1,
            .raster = params.raster,
            .raster_group = params.raster_group,
            .swizzle_stride = params.swizzle_stride,
            .persistence = persistence,
            .k_order = k_order};
  }

  /// Tiles of all CTAs, those outside C included: the parts that split_k sums are `consumers` (one
  /// with pingpong) times as many.
  SWR_HD constexpr long long cta_tiles(const GemmParams& params) const {
    const GemmSchedule of = schedule(params);
    return of.cluster_tiles() * of.batch * ctas_per_cluster();
  }
  SWR_HD constexpr int parts_per_tile() const {
    return mainloop == GemmMainloop::pingpong ? 1 : consumers;
  }
  /// Bytes of GemmParams::partials and words of GemmParams::arrivals.
  SWR_HD constexpr long long partials_bytes(const GemmParams& params) const {
    return split_k ? cta_tiles(params) * params.splits * tile_m * tile_n * 4 : 0;
  }
  SWR_HD constexpr long long arrival_words(const GemmParams& params) const {
    return split_k ? cta_tiles(params) * parts_per_tile() : 0;
  }
};

}  // namespace swr
