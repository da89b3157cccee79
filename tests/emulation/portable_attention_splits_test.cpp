// SPDX-License-Identifier: MIT
// Portable attention whose keys are divided, among CTAs or among the warps of one.
#include "tests/emulation/portable_attention_problem.h"

namespace swr::portable_test {
namespace {
TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryHeadDim) {
  const Launch splits{.kv_splits = 2};
  expect_right<split(packed(with_head_dim(16, DType::fp16, true)))>(kDecode, splits);
  expect_right<split(packed(with_head_dim(48, DType::bf16, false)))>(kDecode, splits);
  expect_right<split(packed(with_head_dim(80, DType::fp16, true)))>(kDecode, splits);
  constexpr Shape kOneGroup{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 83};
  expect_right<split(packed(with_head_dim(64, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(96, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(128, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(192, DType::fp16, false)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(256, DType::fp16, true)))>(kOneGroup, splits);
}

TEST(EmulatedPortableAttention, PackedHeadsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = packed(with_tile(32, 16, 2, 2));
  for (const int group : {2, 3, 8}) {
    for (const int seq_q : {1, 3, 5, 16}) {
      for (const int seq_kv : {1, 4, 37}) {
        const Shape shape{.heads_q = group, .heads_kv = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape);
        expect_right<without_mask(kCausal)>(shape);
      }
    }
  }
}

/// Also more splits than K and V tiles, and tiles that the mask hides from all rows.
TEST(EmulatedPortableAttention, SplitsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = split(with_tile(32, 16, 2, 2));
  for (const int kv_splits : {2, 3, 7}) {
    for (const int seq_q : {1, 17, 70}) {
      for (const int seq_kv : {1, 32, 50}) {
        const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape, {.kv_splits = kv_splits});
        expect_right<without_mask(kCausal)>(shape, {.kv_splits = kv_splits});
      }
    }
  }
}

/// Results of more splits than are fetched at once.
TEST(EmulatedPortableAttention, IsRightForTheMostSplits) {
  constexpr Shape kLong{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 16 * 70 + 5};
  expect_right<split(packed(with_tile(16, 16, 1, 3)))>(kLong, {.kv_splits = 64});
  expect_right<split(packed(with_tile(16, 16, 1, 1)))>(kLong, {.kv_splits = 9});
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryTileAndDepth) {
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 9, .seq_kv = 100};
  const Launch splits{.kv_splits = 3};
  expect_right<split(packed(with_tile(16, 16, 1, 4)))>(kShape, splits);
  expect_right<split(packed(with_tile(32, 32, 1, 2)))>(kShape, splits);
  expect_right<split(packed(with_tile(64, 32, 4, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(64, 32, 4, 3)))>(kShape, splits);
  expect_right<split(packed(with_tile(80, 32, 5, 2)))>(kShape, splits);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightInEveryScheduleAndMapping) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 75};
  for (const int section_heads : {1, 2, 4}) {
    const Launch launch{.section_heads = section_heads, .kv_splits = 3};
    expect_right<split(scheduled(Order::sawtooth, Persistence::persistent))>(kShape, launch);
    expect_right<split(packed(scheduled(Order::sawtooth, Persistence::pairs)))>(kShape, launch);
  }
  const Launch launch{.kv_splits = 2};
  expect_right<split(packed(scheduled(Order::right_to_left, Persistence::grid)))>(kShape, launch);
  expect_right<split(packed(scheduled(Order::right_to_left, Persistence::snake)))>(kShape, launch);
  expect_right<packed(scheduled(Order::sawtooth, Persistence::persistent))>(kShape);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightWithLongTilesFirst) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 75};
  const Launch launch{.section_heads = 2, .kv_splits = 3, .longest_first = true};
  expect_right<split(packed(scheduled(Order::sawtooth, Persistence::persistent)))>(kShape, launch);
  expect_right<split(packed(scheduled(Order::cyclic, Persistence::grid)))>(kShape, launch);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryLayoutAndAlignment) {
  constexpr Shape kGrouped{.batch = 2, .heads_q = 6, .heads_kv = 2, .seq_q = 3, .seq_kv = 70};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    const Launch launch{.memory = memory, .kv_splits = 2, .with_lse = false};
    expect_right<split(packed(with_alignment(16, 64)))>(kGrouped, launch);
    expect_right<split(packed(with_alignment(2, 48)))>(kGrouped, launch);
    expect_right<packed(with_alignment(4, 64))>(kGrouped, {.memory = memory});
  }
}

/// L2 fetches the rows of K and V that each CTA takes first, all their lines and no others, and
/// before the launch before has ended.
TEST(EmulatedPortableAttention, SplitsHaveTheirFirstTilesFetched) {
  constexpr PortableAttentionConfig kConfig =
      split(packed(in_key_groups(with_head_dim(128, DType::fp16, false))));
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 1, .seq_kv = 3 * kConfig.tile_n + 5};
  Attention<kConfig> attention(kShape, {.kv_splits = 4});
  attention.run(CopyTime::late, Pace::together);
  std::map<const void*, bool> expected;
  for (int head = 0; head < kShape.heads_kv; ++head) {
    for (int key = 0; key < kShape.seq_kv; ++key) {  // Each split has one tile.
      for (emulation::StridedTensor* const tensor : {&attention.k(), &attention.v()}) {
        expected[&tensor->at(0, head, key, 0)] = true;
        expected[&tensor->at(0, head, key, 64)] = true;
      }
    }
  }
  EXPECT_EQ(attention.prefetched(), expected);
  EXPECT_EQ(attention.wrong_values(), 0);

  Attention<without_mask(kBase)> prefill({}, {});
  prefill.run(CopyTime::late, Pace::together);
  EXPECT_TRUE(prefill.prefetched().empty());
}

/// Whichever CTA combines the splits, every bit is the same.
TEST(EmulatedPortableAttention, SplitsAreCombinedInTheirOrder) {
  constexpr PortableAttentionConfig kConfig = split(packed(with_tile(32, 16, 2, 2)));
  constexpr Shape kShape{.heads_q = 6, .heads_kv = 2, .seq_q = 4, .seq_kv = 150};
  Attention<kConfig> first(kShape, {.kv_splits = 5});
  Attention<kConfig> second(kShape, {.kv_splits = 5, .ctas = CtaOrder::descending});
  first.run(CopyTime::late, Pace::together);
  second.run(CopyTime::late, Pace::together);
  EXPECT_EQ(second.wrong_values(), 0);
  for (int head = 0; head < kShape.heads_q; ++head) {
    for (int row = 0; row < kShape.seq_q; ++row) {
      EXPECT_EQ(first.lse(0, head, row), second.lse(0, head, row));
      for (int d = 0; d < kConfig.head_dim; ++d) {
        EXPECT_EQ(first.o(0, head, row, d), second.o(0, head, row, d));
      }
    }
  }
}

/// In one split of several: NaN and infinity reach the rows that see the key, and no others.
TEST(EmulatedPortableAttention, NonFiniteScoresOfOneSplitAreWhatSoftmaxMakesOfThem) {
  constexpr PortableAttentionConfig kConfig = split(packed(with_tile(32, 16, 2, 2)));
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 1, .seq_q = 20, .seq_kv = 70};
  const auto expect_reference = [&](float in_q, float in_k, int key) {
    Attention<kConfig> attention(kShape, {.kv_splits = 3});
    for (int head = 0; head < kShape.heads_q; ++head) {
      for (int row = 0; row < kShape.seq_q; ++row) {
        attention.q().at(0, head, row, 5) = bits_of(in_q, DType::fp16);
      }
    }
    attention.k().at(0, 0, key, 5) = bits_of(in_k, DType::fp16);
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << in_q << " " << in_k << " key " << key;
  };
  for (const int key : {0, 40, 60, 69}) {
    expect_reference(1.0F, NAN, key);
    expect_reference(1.0F, HUGE_VALF, key);
    expect_reference(1.0F, -HUGE_VALF, key);
  }
  constexpr Shape kOneKey{.heads_q = 4, .heads_kv = 1, .seq_q = 2, .seq_kv = 1};
  Attention<without_mask(kConfig)> hidden(kOneKey, {.kv_splits = 2});
  hidden.q().at(0, 0, 0, 5) = bits_of(1.0F, DType::fp16);
  hidden.k().at(0, 0, 0, 5) = bits_of(-HUGE_VALF, DType::fp16);
  hidden.run(CopyTime::late, Pace::together);
  EXPECT_EQ(hidden.wrong_values(), 0);
}

// The portable attention kernel on the CPU: warps that share rows and divide the keys of a tile.

/// Warps that share a block of rows divide the keys of every tile.
TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryHeadDim) {
  constexpr Shape kOneGroup{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 150};
  const Launch splits{.kv_splits = 2};
  expect_right<split(packed(in_key_groups(with_head_dim(16, DType::fp16, true))))>(kOneGroup,
                                                                                   splits);
  expect_right<split(packed(in_key_groups(with_head_dim(48, DType::bf16, false))))>(kOneGroup,
                                                                                    splits);
  expect_right<split(packed(in_key_groups(with_head_dim(80, DType::fp16, true))))>(kOneGroup,
                                                                                   splits);
  expect_right<packed(in_key_groups(with_head_dim(128, DType::bf16, true)))>(kOneGroup);
  expect_right<split(packed(in_key_groups(with_head_dim(256, DType::fp16, true))))>(kOneGroup,
                                                                                    splits);
}

/// Groups of one warp and of two, of one block of rows and of two, with every depth.
TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryTileAndDepth) {
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 9, .seq_kv = 200};
  const Launch splits{.kv_splits = 3};
  expect_right<split(packed(with_tile(16, 32, 2, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(16, 64, 4, 2)))>(kShape, splits);
  expect_right<split(packed(with_tile(16, 128, 8, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(32, 32, 4, 3)))>(kShape, splits);
  expect_right<split(with_tile(32, 64, 4, 1))>(kShape, splits);
  expect_right<packed(with_tile(16, 64, 4, 4))>(kShape);
  expect_right<with_tile(16, 64, 2, 1)>(kShape);
}

TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = packed(with_tile(16, 64, 4, 2));
  for (const int group : {1, 8}) {
    for (const int seq_q : {1, 5, 30}) {
      for (const int seq_kv : {1, 17, 100}) {
        const Shape shape{.heads_q = group, .heads_kv = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape);
        expect_right<without_mask(kCausal)>(shape);
        expect_right<split(kCausal)>(shape, {.kv_splits = 2});
      }
    }
  }
}

TEST(EmulatedPortableAttention, KeyGroupsAreRightInEverySchedule) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 140};
  const Launch launch{.section_heads = 2, .kv_splits = 2};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_right<packed(key_groups_scheduled(Order::sawtooth, Persistence::persistent))>(
        kShape, {.memory = memory});
    expect_right<key_groups_scheduled(Order::sawtooth, Persistence::pairs)>(
        kShape, {.memory = memory, .with_lse = false});
  }
  expect_right<split(packed(key_groups_scheduled(Order::cyclic, Persistence::persistent)))>(kShape,
                                                                                            launch);
}

}  // namespace
}  // namespace swr::portable_test
