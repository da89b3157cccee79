// SPDX-License-Identifier: MIT
// The schedule of grouped GEMM, written once: the items of B's batch one after another, each with
// the schedule of a GEMM of its own rows. The rows are known when the kernel runs.
#pragma once

#include "common/gemm_schedule.h"
#include <swr/annotations.h>
#include <swr/gemm_params.h>

namespace swr {

/// Items that a launch may have: kernels keep a word of each in shared memory.
inline constexpr int kMostGroups = 512;

/// Rows [first, end) of one matrix of A's and C's batch.
struct GroupRows {
  int matrix = 0;
  int first = 0;
  int end = 0;
};

/// The rows of an item, offsets and masked. None lies outside of A, whatever the numbers say.
SWR_HD constexpr GroupRows group_rows(const GemmParams& params, GemmGroups form, int item) {
  const int end = min_of(params.groups[item], params.m);
  if (form == GemmGroups::masked) {
    return {item, 0, end};
  }
  return {0, item == 0 ? 0 : max_of(0, params.groups[item - 1]), end};
}

/// Rows of clusters that an item's rows take.
SWR_HD constexpr int group_cluster_rows(const GroupRows& rows, const GemmSchedule& schedule) {
  return ceil_div(max_of(0, rows.end - rows.first), schedule.tile_m * schedule.cluster_m);
}

/// One unit of work.
struct GroupedWork {
  int item = 0;  ///< Of B; negative where there is nothing to compute.
  GroupRows rows;
  GemmTile tile;  ///< In units of clusters, from rows.first on.
};

/// The item that owns the `row`-th row of clusters: the first whose end lies behind. `ends(i)`
/// counts the rows of clusters of items 0 to i.
template <typename Ends>
SWR_HD constexpr int group_at(int row, int items, const Ends& ends) {
  int first = 0;
  while (first < items) {
    const int middle = (first + items) / 2;
    if (ends(middle) > row) {
      items = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

/// Work items of a launch. contiguous asks for no `ends`.
template <typename Ends>
SWR_HD constexpr int grouped_work_items(const GemmSchedule& schedule, GemmGroups form,
                                        const Ends& ends) {
  const int rows = form == GemmGroups::contiguous ? schedule.rows() : ends(schedule.batch - 1);
  return rows * schedule.columns();
}

/// The work of a linear index.
template <typename Ends>
SWR_HD constexpr GroupedWork grouped_work(GemmSchedule schedule, const GemmParams& params,
                                          GemmGroups form, int linear, const Ends& ends) {
  if (form == GemmGroups::contiguous) {
    const GemmTile tile = schedule.work(linear).tile;
    const int first_row = tile.m * schedule.tile_m * schedule.cluster_m;
    return {params.groups[first_row], {0, 0, params.m}, tile};
  }
  const int columns = schedule.columns();
  const int item = group_at(linear / columns, schedule.batch, ends);
  const GroupRows rows = group_rows(params, form, item);
  const int before = item == 0 ? 0 : ends(item - 1);
  schedule.m = rows.end - rows.first;
  return {item, rows, schedule.work(linear - before * columns).tile};
}

}  // namespace swr
