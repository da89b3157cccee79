// SPDX-License-Identifier: MIT
// The kernel that appends to the caches, run on the CPU: every new row lands where the tables say,
// turned as RoFormer defines it, and nothing else changes.
#include "attention_serving/append/append.cuh"
#include "tests/emulation/append_problem.h"
#include "tests/emulation/simt.h"

#include <gtest/gtest.h>

#include <vector>

namespace swr {
namespace {

using serving_test::Appending;
using serving_test::Elements;
using serving_test::kPoison;

template <DType Type>
void expect_right(unsigned seed) {
  Appending problem(Type, seed);
  const Elements q = problem.q();
  emulation::LaunchBefore before;
  for (Elements* const elements : {&problem.k_new(), &problem.v_new(), &problem.q()}) {
    before.writes(*elements, kPoison);
  }
  emulation::run({.grid = static_cast<unsigned>(append_ctas(problem.params(), 2)),
                  .threads = serving::kAppendThreads,
                  .smem_bytes = 16,
                  .end_launch_before = before},
                 [&] { serving::append_rows<Type>(problem.params()); });
  EXPECT_EQ(problem.q(), q);
  EXPECT_EQ(problem.wrong_elements(), 0) << "seed " << seed;
}

TEST(EmulatedKvAppend, NewRowsLandTurnedAndNothingElseChanges) {
  for (unsigned seed = 0; seed < 250 && !HasFailure(); ++seed) {
    expect_right<DType::bf16>(seed);
    expect_right<DType::fp16>(seed + 1000);
  }
}

/// Also behind and ahead of sequences without new rows.
TEST(EmulatedKvAppend, RowsFindTheirSequence) {
  const std::vector<int> ends{0, 0, 3, 3, 3, 4, 9, 9};
  for (int row = 0; row < 9; ++row) {
    const serving::SequenceRow found = serving::find_row(ends.data(), 7, 0, row);
    EXPECT_LE(ends[static_cast<std::size_t>(found.sequence)], row);
    EXPECT_GT(ends[static_cast<std::size_t>(found.sequence) + 1], row);
    EXPECT_EQ(ends[static_cast<std::size_t>(found.sequence)] + found.row, row);
  }
  EXPECT_EQ(serving::find_row(nullptr, 5, 4, 11).sequence, 2);
  EXPECT_EQ(serving::find_row(nullptr, 5, 4, 11).row, 3);
}

}  // namespace
}  // namespace swr
