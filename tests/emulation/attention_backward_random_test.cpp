// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU against fp64 for thousands of random
// problems: sizes, heads, strides, inputs, launches.
#include "tests/emulation/attention_backward_cases.h"

namespace swr {
namespace {

class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  int from(int lowest, int highest) {
    return std::uniform_int_distribution<int>(lowest, highest)(random_);
  }
  bool coin() { return from(0, 1) == 1; }

  AttentionCase shape() {
    const int heads_kv = from(1, 2);
    return {.batch = from(1, 2),
            .heads_q = heads_kv * from(1, 3),
            .heads_kv = heads_kv,
            .seq_q = from(1, 40),
            .seq_kv = from(1, 40)};
  }
  BackwardChoice choice() {
    return {.memory = coin() ? MemoryOrder::bhsd : MemoryOrder::bshd,
            .section_heads = from(1, 4),
            .workers = from(1, 6),
            .parts = coin() ? 1 : from(2, 4),
            .last_kv_first = coin(),
            .bands = from(1, 3),
            .with_d_lse = coin(),
            .copies = coin() ? CopyTime::early : CopyTime::late,
            .pace = coin() ? Pace::first_warp_ahead : Pace::last_warp_ahead,
            .room = static_cast<unsigned>(coin() ? 0 : 8),
            .seed = seed()};
  }
  unsigned seed() { return static_cast<unsigned>(random_()); }

 private:
  std::mt19937 random_;
};

constexpr int kProblemsEach = 500;

template <KeyPassConfig K>
void expect_right_at_random(unsigned seed) {
  RandomProblems problems(seed);
  for (int i = 0; i < kProblemsEach; ++i) {
    AttentionCase problem = case_of<K>(problems.shape());
    problem.scale *= std::pow(2.0, problems.from(-2, 2));
    const BackwardChoice choice = problems.choice();
    BackwardProblem<K, query_of(K)> backward(problem, choice, problems.seed());
    ASSERT_TRUE(backward.run()) << text(problem) << " number " << i;
    const Deviation off = backward.deviation();
    ASSERT_EQ(off.wrong, 0) << text(problem) << " number " << i;
    ASSERT_LE(off.worst, 1.0) << text(problem) << " number " << i;
    ASSERT_EQ(backward.disturbed(), 0) << text(problem) << " number " << i;
  }
}

constexpr KeyPassConfig at(KeyPassConfig config, QOrder order, Persistence persistence,
                           DType dtype) {
  config = with_dims(config, 16, 16, dtype);
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedAttentionBackward, RandomProblemsWithAtomicSumsAreRight) {
  expect_right_at_random<at(kSmall, QOrder::sawtooth, Persistence::dynamic, DType::bf16)>(1);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithoutMaskAndAtomicSumsAreRight) {
  expect_right_at_random<without_mask(
      at(with_tile(32, 16, 1, 16, 2), QOrder::rotated, Persistence::snake, DType::fp16))>(2);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithSumsInTurnAreRight) {
  expect_right_at_random<in_order(
      at(kSmall, QOrder::right_to_left, Persistence::grid, DType::fp16))>(3);
}
TEST(EmulatedAttentionBackward, RandomProblemsWithoutMaskAndSumsInTurnAreRight) {
  expect_right_at_random<in_order(
      without_mask(at(kSmall, QOrder::cyclic, Persistence::grid, DType::bf16)))>(4);
}
TEST(EmulatedAttentionBackward, RandomProblemsInTwoPassesAreRight) {
  expect_right_at_random<without_sums(
      at(with_tile(16, 32, 1, 16, 2), QOrder::cyclic, Persistence::dynamic, DType::bf16))>(5);
}
TEST(EmulatedAttentionBackward, RandomProblemsOfWarpsThatShareKeysAreRight) {
  constexpr KeyPassConfig kShared = shared(with_tile(32, 16, 2, 16, 1), 2);
  expect_right_at_random<with_dims(kShared, 32, 32, DType::fp16)>(6);
}

}  // namespace
}  // namespace swr
