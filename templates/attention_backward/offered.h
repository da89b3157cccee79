// SPDX-License-Identifier: MIT
// The configurations of the portable attention backward that are worth compiling, before a search
// has measured any: per head_dim those whose shared memory fits every GPU from sm_80 on (99 KiB),
// the one with most warps first, and larger ones for those with 163 KiB and more.
#pragma once

#include "attention_backward/config.h"
#include <swr/attention_backward_axes.h>
#include <swr/axes.h>

namespace swr::backward {

/// Dynamic shared memory that one CTA may have on sm_86, sm_89, sm_120 and sm_121, and on sm_80.
inline constexpr int kSmallSmemBytes = 101376;
inline constexpr int kLargeSmemBytes = 166912;

/// What distinguishes tiles of the pass over K and V tiles. Offered where shared memory has room
/// for every way of summing dQ.
struct KeyTiles {
  int head_dim;
  int value_dim;
  int tile_m;
  int tile_n;
  int warps;
  int rows_at_once;
  int column_groups;
  int stages;
};

inline constexpr KeyTiles kKeyTiles[] = {
    {64, 64, 64, 128, 8, 32, 1, 2},  {64, 64, 64, 64, 4, 32, 1, 2},
    {64, 64, 64, 128, 4, 16, 1, 1},  {96, 96, 64, 128, 8, 32, 1, 1},
    {96, 96, 64, 64, 4, 32, 1, 1},   {96, 96, 64, 64, 4, 32, 2, 1},
    {112, 112, 64, 64, 4, 16, 1, 1}, {128, 128, 32, 128, 8, 16, 1, 1},
    {128, 128, 32, 64, 4, 16, 1, 1}, {128, 128, 64, 128, 8, 32, 2, 2},
    {128, 128, 64, 64, 4, 32, 2, 1}, {192, 128, 32, 64, 8, 16, 2, 1},
    {192, 128, 32, 32, 4, 16, 2, 1}, {192, 128, 64, 64, 8, 16, 4, 1},
    {256, 256, 32, 64, 8, 16, 2, 1}, {256, 256, 32, 32, 4, 16, 2, 1},
    {256, 256, 64, 64, 8, 16, 4, 1},
};
inline constexpr int kKeyTilesCount = sizeof(kKeyTiles) / sizeof(kKeyTiles[0]);

SWR_HD constexpr KeyPassConfig key_pass_config(const KeyTiles& tiles, DType dtype, bool causal,
                                               DqSum dq_sum, bool wide_adds, QOrder order,
                                               Persistence persistence) {
  return {.head_dim = tiles.head_dim,
          .value_dim = tiles.value_dim,
          .dtype = dtype,
          .causal = causal,
          .alignment_bytes = 16,
          .tile_m = tiles.tile_m,
          .tile_n = tiles.tile_n,
          .warps = tiles.warps,
          .rows_at_once = tiles.rows_at_once,
          .column_groups = tiles.column_groups,
          .stages = tiles.stages,
          .dq_sum = dq_sum,
          .wide_adds = wide_adds,
          .order = order,
          .persistence = persistence,
          .smem_swizzle = true};
}

/// What distinguishes tiles of the pass over Q tiles.
struct QueryTiles {
  int head_dim;
  int value_dim;
  int tile_m;
  int tile_n;
  int warps;
  int keys_at_once;
  int stages;
};

inline constexpr QueryTiles kQueryTiles[] = {
    {64, 64, 128, 64, 4, 32, 2},   {64, 64, 64, 64, 4, 32, 2},    {96, 96, 64, 64, 4, 32, 2},
    {96, 96, 128, 64, 8, 32, 1},   {112, 112, 64, 64, 4, 32, 1},  {128, 128, 64, 64, 4, 32, 1},
    {128, 128, 128, 32, 8, 32, 1}, {128, 128, 128, 64, 8, 32, 1}, {128, 128, 128, 64, 8, 32, 2},
    {192, 128, 64, 64, 4, 16, 1},  {192, 128, 128, 64, 8, 32, 1}, {256, 256, 64, 32, 4, 16, 1},
};
inline constexpr int kQueryTilesCount = sizeof(kQueryTiles) / sizeof(kQueryTiles[0]);

/// The same beside a pass over K and V tiles of the hopper family: one register bound holds for
/// both, that of its 384 threads.
inline constexpr QueryTiles kHopperQueryTiles[] = {
    {64, 64, 64, 64, 4, 32, 2},    {96, 96, 128, 64, 8, 32, 1},   {96, 96, 64, 64, 4, 32, 2},
    {112, 112, 64, 64, 4, 32, 1},  {128, 128, 128, 64, 8, 16, 1}, {128, 128, 128, 64, 8, 16, 2},
    {128, 128, 128, 32, 8, 32, 1}, {128, 128, 64, 64, 4, 16, 1},
};

SWR_HD constexpr QueryPassConfig query_pass_config(const QueryTiles& tiles, DType dtype,
                                                   bool causal, Order order,
                                                   Persistence persistence) {
  return {.head_dim = tiles.head_dim,
          .value_dim = tiles.value_dim,
          .dtype = dtype,
          .causal = causal,
          .alignment_bytes = 16,
          .tile_m = tiles.tile_m,
          .tile_n = tiles.tile_n,
          .warps = tiles.warps,
          .keys_at_once = tiles.keys_at_once,
          .stages = tiles.stages,
          .order = order,
          .persistence = persistence,
          .smem_swizzle = true};
}

}  // namespace swr::backward
