// SPDX-License-Identifier: MIT
// For which shapes a compiled GEMM kernel with its choices at launch is legal. Self-contained
// arithmetic, so that the constraints and exported packages, which carry this very file, agree.
#pragma once

#include "templates/common/gemm_schedule.h"
#include <swr/gemm_params.h>

namespace swr {

/// GemmProblem::m of a call: of groups a power of two, so that a few kernels serve all counts.
constexpr int problem_rows(const GemmParams& params, const GemmGrouping& grouping) {
  if (grouping.form == GemmGroups::none) {
    return params.m;
  }
  const int most =
      has_matrix_per_item(grouping.form) ? params.m : ceil_div(params.m, max_of(1, params.batch));
  const int rows = grouping.expected_rows > 0 ? grouping.expected_rows : most;
  int power = 1;
  while (power < rows) {
    power *= 2;
  }
  return power;
}

/// Orders that take rows of tiles in bands of raster_group.
constexpr bool is_banded(Raster raster) {
  return raster == Raster::grouped || raster == Raster::serpentine;
}

/// Of C: the largest power of two, at most 16, that divides the length of a row as well as
/// `alignment_bytes`. TMA writes whole 16 bytes at the end of a row.
constexpr int row_alignment_bytes(int n, int output_bytes, int alignment_bytes) {
  const long long bits = static_cast<long long>(n) * output_bytes | alignment_bytes;
  return static_cast<int>(bits & -bits);
}

constexpr bool has_block_per_split(const GemmSchedule& schedule) {
  return schedule.splits * schedule.cluster_k <= schedule.k_blocks();
}

/// False where a single band holds all rows, which equals along_m.
constexpr bool has_several_bands(const GemmSchedule& schedule) {
  return !is_banded(schedule.raster) || schedule.raster_group < schedule.rows();
}

/// False where one column group holds all columns, which equals no stride.
constexpr bool has_several_column_groups(const GemmSchedule& schedule) {
  return schedule.swizzle_stride == 0 || schedule.swizzle_stride < schedule.n;
}

/// Linear indices of work, and those inside a band, have 32 bits.
constexpr bool has_small_indices(const GemmSchedule& schedule) {
  constexpr long long kLimit = 1LL << 31;
  return schedule.work_items() < kLimit &&
         static_cast<long long>(schedule.raster_group) * schedule.columns() < kLimit;
}

/// All of these that a schedule decides.
constexpr bool is_legal(const GemmSchedule& schedule) {
  return has_block_per_split(schedule) && has_several_bands(schedule) &&
         has_several_column_groups(schedule) && has_small_indices(schedule);
}

}  // namespace swr
