// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU: every order and persistence is right, and
// additions to dQ in turn give the same bits whichever CTAs run ahead.
#include "tests/emulation/attention_backward_cases.h"

namespace swr {
namespace {

TEST(EmulatedAttentionBackward, EveryOrderAndPersistenceIsRight) {
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 60};
  const BackwardChoice choice{.section_heads = 3};
  const BackwardChoice last_first{.section_heads = 4, .last_kv_first = true, .bands = 2};
  expect_right<walking(QOrder::sawtooth, Persistence::persistent)>(kGrouped, choice);
  expect_right<without_sums(walking(QOrder::sawtooth, Persistence::dynamic))>(kGrouped, choice);
  expect_right<in_order(walking(QOrder::right_to_left, Persistence::snake))>(kGrouped, last_first);
  expect_right<walking(QOrder::right_to_left, Persistence::pairs)>(kGrouped, choice);
  expect_right<walking(QOrder::rotated, Persistence::grid)>(kGrouped, last_first);
  expect_right<without_sums(without_mask(walking(QOrder::rotated, Persistence::persistent)))>(
      kGrouped, choice);
}

/// CTAs side by side in any order: who adds when is fixed.
template <KeyPassConfig K>
void expect_same_bits(const AttentionCase& shape, BackwardChoice choice) {
  std::set<std::vector<std::uint16_t>> results;
  for (unsigned seed = 0; seed < 6; ++seed) {
    choice.seed = seed;
    BackwardProblem<K, query_of(K)> backward(case_of<K>(shape), choice);
    ASSERT_TRUE(backward.run());
    EXPECT_LE(backward.deviation().worst, 1.0);
    results.insert(backward.bits());
  }
  EXPECT_EQ(results.size(), 1U);
}

constexpr AttentionCase kManyTiles{
    .batch = 1, .heads_q = 4, .heads_kv = 2, .seq_q = 90, .seq_kv = 110};

TEST(EmulatedAttentionBackward, AdditionsInTurnGiveTheSameBitsWhoeverComesFirst) {
  const BackwardChoice choice{.room = 3};
  expect_same_bits<in_order(walking(QOrder::cyclic, Persistence::grid))>(kManyTiles, choice);
  expect_same_bits<in_order(walking(QOrder::right_to_left, Persistence::grid))>(
      kManyTiles, {.last_kv_first = true, .room = 4});
  expect_same_bits<in_order(walking(QOrder::cyclic, Persistence::grid))>(
      kManyTiles, {.section_heads = 2, .last_kv_first = true, .bands = 3, .room = 4});
  expect_same_bits<in_order(walking(QOrder::sawtooth, Persistence::dynamic))>(
      kManyTiles, {.section_heads = 2, .workers = 5, .room = 5});
  expect_same_bits<in_order(without_mask(walking(QOrder::cyclic, Persistence::dynamic)))>(
      kManyTiles, {.section_heads = 2, .workers = 9, .parts = 2, .room = 9});
  expect_same_bits<in_order(without_mask(walking(QOrder::sawtooth, Persistence::grid)))>(
      kManyTiles, {.last_kv_first = true, .room = 20});
}

/// Else the tests before would not notice additions in any order.
TEST(EmulatedAttentionBackward, AtomicAdditionsDoNot) {
  std::set<std::vector<std::uint16_t>> results;
  for (unsigned seed = 0; seed < 6; ++seed) {
    constexpr KeyPassConfig kConfig = without_mask(walking(QOrder::cyclic, Persistence::grid));
    BackwardProblem<kConfig, query_of(kConfig)> backward(case_of<kConfig>(kManyTiles),
                                                         {.room = 8, .seed = seed});
    ASSERT_TRUE(backward.run());
    EXPECT_LE(backward.deviation().worst, 1.0);
    results.insert(backward.bits());
  }
  EXPECT_GT(results.size(), 1U);
}

/// Whoever does not wait for its turn adds to what is not there.
TEST(EmulatedAttentionBackward, TurnsNotAwaitedShow) {
  constexpr KeyPassConfig kConfig =
      in_order(without_mask(walking(QOrder::cyclic, Persistence::grid)));
  BackwardProblem<kConfig, query_of(kConfig)> backward(
      case_of<kConfig>(kManyTiles), {.fault = Fault::turns_not_awaited, .room = 8});
  backward.run();
  const Deviation off = backward.deviation();
  EXPECT_TRUE(off.wrong > 0 || off.worst > 1.0);
}

}  // namespace
}  // namespace swr
