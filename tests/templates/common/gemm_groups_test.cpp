// SPDX-License-Identifier: MIT
// Proves the schedule of grouped GEMM: over random counts, tiles, clusters and orders every element
// of every item's rows is computed exactly once, with that item's matrix, and no other element.
#include "templates/common/gemm_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace swr {
namespace {

constexpr std::array kEdges{0, 1, 63, 64, 65, 127, 128, 129, 500};

/// The numbers on the device, and who owns a row of a matrix.
struct Rows {
  std::vector<int> numbers;
  std::map<std::pair<int, int>, int> owners;  ///< (matrix, row): item.
  int m = 0;
};

Rows rows_of(GemmGroups form, const std::vector<int>& counts) {
  Rows rows;
  for (int item = 0; item < static_cast<int>(counts.size()); ++item) {
    const int count = counts[static_cast<std::size_t>(item)];
    const bool is_masked = form == GemmGroups::masked;
    const int matrix = is_masked ? item : 0;
    const int first = is_masked ? 0 : rows.m;
    for (int row = 0; row < count; ++row) {
      rows.owners[{matrix, first + row}] = item;
    }
    if (form == GemmGroups::contiguous) {
      // Whole runs; a run of padding in front of every third item.
      const int run = ceil_div(count, kContiguousRows) * kContiguousRows;
      rows.numbers.insert(rows.numbers.end(), static_cast<std::size_t>(count), item);
      rows.numbers.insert(rows.numbers.end(), static_cast<std::size_t>(run - count), -1);
      if (item % 3 == 0) {
        rows.numbers.insert(rows.numbers.end(), kContiguousRows, -1);
      }
      rows.m = static_cast<int>(rows.numbers.size());
    } else {
      rows.m = is_masked ? std::max(rows.m, count) : rows.m + count;
      rows.numbers.push_back(is_masked ? count : rows.m);
    }
  }
  return rows;
}

/// What a kernel keeps in shared memory.
std::vector<int> ends_of(const GemmParams& params, GemmGroups form, const GemmSchedule& schedule) {
  std::vector<int> ends;
  for (int item = 0; item < params.batch && form != GemmGroups::contiguous; ++item) {
    ends.push_back((ends.empty() ? 0 : ends.back()) +
                   group_cluster_rows(group_rows(params, form, item), schedule));
  }
  return ends;
}

void expect_each_row_once(GemmGroups form, const std::vector<int>& counts, GemmSchedule schedule) {
  const Rows rows = rows_of(form, counts);
  GemmParams params;
  params.m = rows.m;
  params.batch = static_cast<int>(counts.size());
  params.groups = rows.numbers.data();
  schedule.m = params.m;
  schedule.batch = params.batch;
  const std::vector<int> table = ends_of(params, form, schedule);
  const auto ends = [&](int item) { return table.at(static_cast<std::size_t>(item)); };
  std::map<std::pair<int, int>, std::vector<int>> columns;  // Of a row: how often each.
  const int items = grouped_work_items(schedule, form, ends);
  for (int linear = 0; linear < items; ++linear) {
    const GroupedWork work = grouped_work(schedule, params, form, linear, ends);
    for (int rank = 0; work.item >= 0 && rank < schedule.ctas_per_cluster(); ++rank) {
      const GemmTile tile = schedule.cta_tile_of(work.tile, rank);
      const int first = work.rows.first + tile.m * schedule.tile_m;
      for (int row = first; row < min_of(first + schedule.tile_m, work.rows.end); ++row) {
        const auto owner = rows.owners.find({work.rows.matrix, row});
        if (owner == rows.owners.end()) {
          // Only the padding that ends a run may be computed.
          ASSERT_TRUE(form == GemmGroups::contiguous && row % kContiguousRows != 0) << row;
          continue;
        }
        ASSERT_EQ(owner->second, work.item) << "row " << row;
        auto& seen = columns[owner->first];
        seen.resize(static_cast<std::size_t>(schedule.n));
        for (int n = tile.n * schedule.tile_n;
             n < min_of((tile.n + 1) * schedule.tile_n, schedule.n); ++n) {
          ++seen[static_cast<std::size_t>(n)];
        }
      }
    }
  }
  ASSERT_EQ(columns.size(), rows.owners.size());
  for (const auto& [row, seen] : columns) {
    ASSERT_EQ(seen, std::vector<int>(seen.size(), 1)) << row.first << ", " << row.second;
  }
}

GemmSchedule drawn_schedule(std::mt19937& random) {
  const auto one_of = [&](const auto& values) { return values[random() % values.size()]; };
  GemmSchedule schedule;
  schedule.n = 1 + static_cast<int>(random() % 700);
  schedule.k = 64;
  schedule.tile_m = one_of(std::array{16, 32, 64, 128});
  schedule.tile_n = one_of(std::array{16, 48, 128, 256});
  schedule.tile_k = 64;
  schedule.cluster_m = schedule.tile_m == 128 ? 1 : 1 + static_cast<int>(random() % 2);
  schedule.cluster_n = schedule.cluster_m == 2 ? 1 : 1 + static_cast<int>(random() % 2);
  schedule.raster = static_cast<Raster>(random() % 5);
  schedule.raster_group = 1 + static_cast<int>(random() % 4);
  schedule.swizzle_stride = random() % 2 == 0 ? 0 : 256;
  return schedule;
}

TEST(GroupedGemmSchedule, EveryRowOfEveryItemIsComputedOnce) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int> counts(1 + random() % 12);
    for (int& count : counts) {
      count =
          random() % 2 == 0 ? kEdges[random() % kEdges.size()] : static_cast<int>(random() % 300);
    }
    if (trial % 10 == 0) {  // All rows in one item.
      std::fill(counts.begin(), counts.end(), 0);
      counts[random() % counts.size()] = 333;
    }
    const GemmSchedule schedule = drawn_schedule(random);
    for (const GemmGroups form :
         {GemmGroups::offsets, GemmGroups::contiguous, GemmGroups::masked}) {
      expect_each_row_once(form, counts, schedule);
      ASSERT_FALSE(HasFatalFailure()) << "trial " << trial << " form " << static_cast<int>(form);
    }
  }
}

TEST(GroupedGemmSchedule, NumbersThatCannotBeRightNameNoRowOutsideOfA) {
  constexpr std::array kNumbers{-5, 40, 1 << 30, 7, -9};
  GemmParams params;
  params.m = 100;
  params.batch = static_cast<int>(kNumbers.size());
  params.groups = kNumbers.data();
  for (const GemmGroups form : {GemmGroups::offsets, GemmGroups::masked}) {
    for (int item = 0; item < params.batch; ++item) {
      const GroupRows rows = group_rows(params, form, item);
      EXPECT_GE(rows.first, 0);
      EXPECT_LE(rows.end, params.m);
      EXPECT_GE(group_cluster_rows(rows, {.m = 100, .tile_m = 64}), 0);
    }
  }
}

TEST(GroupedGemmSchedule, ItemsAreFoundAmongManyEmptyOnes) {
  std::vector<int> ends(kMostGroups, 0);
  std::fill(ends.begin() + 300, ends.end(), 2);
  std::fill(ends.begin() + 511, ends.end(), 5);
  const auto end_of = [&](int item) { return ends.at(static_cast<std::size_t>(item)); };
  EXPECT_EQ(group_at(0, kMostGroups, end_of), 300);
  EXPECT_EQ(group_at(1, kMostGroups, end_of), 300);
  EXPECT_EQ(group_at(2, kMostGroups, end_of), 511);
  EXPECT_EQ(group_at(4, kMostGroups, end_of), 511);
}

}  // namespace
}  // namespace swr
