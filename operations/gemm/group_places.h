// SPDX-License-Identifier: MIT
// Where the rows of a grouped product lie when swr makes them up, to check and to time kernels.
#pragma once

#include <swr/gemm_problem.h>

#include <span>
#include <vector>

namespace swr {

/// Rows per item of the batch, m times batch in all. Even ones are drawn between 0.7 and 1.3 of the
/// average; of skewed ones one item has half, and every fourth of the others none.
/// Requires: a grouped problem.
std::vector<int> drawn_group_rows(const GemmProblem& problem, unsigned long long seed);

/// Rows [first, first + rows) of one matrix of A's and C's batch, which belong to an item of B's.
struct GroupPart {
  int item = 0;
  int matrix = 0;
  int first = 0;
  int rows = 0;
};

struct GroupPlaces {
  /// Without groups: one part, all rows of all items.
  explicit GroupPlaces(const GemmProblem& problem);
  GroupPlaces(GemmGroups form, std::span<const int> counts);

  int matrices = 1;              ///< Batch of A and C.
  int rows = 0;                  ///< Of each. Behind those of the last item there are more.
  std::vector<int> numbers;      ///< GemmParams::groups.
  std::vector<GroupPart> parts;  ///< Without empty ones.
  /// With contiguous: rows that end an item's runs. They hold what a kernel likes.
  std::vector<GroupPart> padding;
};

}  // namespace swr
