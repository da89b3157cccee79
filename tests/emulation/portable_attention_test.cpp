// SPDX-License-Identifier: MIT
// The portable attention kernel on the CPU: every axis of a tile and a schedule, ragged and tiny
// lengths, masks, grouped heads, strides, inputs that are not finite, and planted faults.
#include "tests/emulation/portable_attention_problem.h"
#include "tests/support/with.h"

namespace swr::portable_test {
namespace {

TEST(EmulatedPortableAttention, IsRightForEveryHeadDim) {
  expect_right<with_head_dim(16, DType::fp16, true)>();
  expect_right<with_head_dim(32, DType::bf16, false)>();
  expect_right<with_head_dim(48, DType::bf16, true)>();
  expect_right<with_head_dim(64, DType::bf16, false)>();
  expect_right<with_head_dim(80, DType::fp16, true)>();
  expect_right<with_head_dim(96, DType::fp16, false)>();
  expect_right<with_head_dim(112, DType::bf16, true)>();
  constexpr Shape kOneHead{.heads_q = 1};
  expect_right<with_head_dim(128, DType::bf16, true)>(kOneHead);
  expect_right<with_head_dim(160, DType::fp16, true)>(kOneHead);
  expect_right<with_head_dim(192, DType::bf16, false)>(kOneHead);
  expect_right<with_head_dim(256, DType::fp16, true)>(kOneHead);
}

TEST(EmulatedPortableAttention, IsRightForEveryTileAndDepth) {
  expect_right<with_tile(16, 16, 1, 1)>();
  expect_right<with_tile(16, 16, 1, 4)>();
  expect_right<with_tile(32, 16, 1, 2)>();
  expect_right<with_tile(32, 48, 2, 3)>();
  expect_right<with_tile(48, 80, 3, 1)>();
  expect_right<with_tile(64, 32, 2, 4)>();
  expect_right<with_tile(64, 64, 4, 1)>();
  expect_right<with_tile(80, 32, 5, 2)>();
}

/// Rows of an odd number of 16-byte pairs, copied by as many threads as are a multiple of it.
TEST(EmulatedPortableAttention, CopiesRowsOfOddLengthWithoutConflicts) {
  constexpr auto kFiveWarps = [](int head_dim) {
    return with(with_tile(80, 16, 5, 1), &Config::head_dim, head_dim);
  };
  static_assert(copies_in_step(kFiveWarps(80)) && copies_in_step(kFiveWarps(160)));
  constexpr Shape kShort{.heads_q = 1, .seq_q = 80, .seq_kv = 32};
  expect_right<kFiveWarps(80)>(kShort);
  expect_right<kFiveWarps(160)>(kShort);
}

/// K and V rings whose slots are used several times over.
TEST(EmulatedPortableAttention, IsRightWhenTheRingTurns) {
  constexpr Shape kLong{.heads_q = 1, .seq_q = 32, .seq_kv = 200};
  expect_right<with_tile(32, 16, 2, 1)>(kLong);
  expect_right<with_tile(32, 16, 2, 2)>(kLong);
  expect_right<with_tile(32, 16, 2, 3)>(kLong);
  expect_right<with_tile(32, 16, 2, 4)>(kLong);
}

TEST(EmulatedPortableAttention, IsRightInEveryScheduleAndMapping) {
  for (const int section_heads : {1, 2, 4}) {
    const Shape shape{.heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
    const Launch launch{.section_heads = section_heads};
    expect_right<scheduled(Order::sawtooth, Persistence::persistent)>(shape, launch);
    expect_right<scheduled(Order::sawtooth, Persistence::pairs)>(shape, launch);
  }
  expect_right<scheduled(Order::cyclic, Persistence::persistent)>();
  expect_right<scheduled(Order::right_to_left, Persistence::grid)>();
  expect_right<scheduled(Order::right_to_left, Persistence::snake)>();
  expect_right<scheduled(Order::cyclic, Persistence::pairs)>();
}

/// Kernels without a mask take no notice.
TEST(EmulatedPortableAttention, IsRightWithLongTilesFirst) {
  constexpr PortableAttentionConfig kGrid = scheduled(Order::cyclic, Persistence::grid);
  constexpr PortableAttentionConfig kPairs = scheduled(Order::sawtooth, Persistence::pairs);
  constexpr PortableAttentionConfig kSnake = scheduled(Order::right_to_left, Persistence::snake);
  for (const int section_heads : {1, 2, 4}) {
    const Shape shape{.heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
    const Launch launch{.section_heads = section_heads, .longest_first = true};
    expect_right<kGrid>(shape, launch);
    expect_right<without_mask(kGrid)>(shape, launch);
    expect_right<kPairs>(shape, launch);
    expect_right<kSnake>(shape, launch);
  }
}

/// The next Q tile's copies must not reach shared memory that slower warps still read.
TEST(EmulatedPortableAttention, WarpsWaitForEachOtherBetweenQTiles) {
  constexpr PortableAttentionConfig kOneCta = [] {
    return with(with_tile(32, 16, 2, 2), &Config::persistence, Persistence::persistent,
                &Config::order, Order::sawtooth);
  }();
  expect_right<kOneCta>({.heads_q = 2, .seq_q = 100, .seq_kv = 60}, {.workers = 1});
}

/// Tiles so large that a Q tile's work waits in shared memory.
TEST(EmulatedPortableAttention, IsRightWhenRegistersAreFew) {
  constexpr auto kLarge = [](int stages) {
    return with(with_tile(32, 48, 1, stages), &Config::head_dim, 128, &Config::persistence,
                Persistence::persistent);
  };
  static_assert(kLarge(1).parks_work() && !kBase.parks_work());
  constexpr Shape kShape{.heads_q = 2, .seq_q = 60, .seq_kv = 100};
  expect_right<kLarge(1)>(kShape, {.workers = 2});
  expect_right<kLarge(2)>(kShape, {.workers = 2});
}

TEST(EmulatedPortableAttention, IsRightForEveryLength) {
  constexpr PortableAttentionConfig kCausal = with_tile(32, 16, 2, 2);
  for (const int seq_q : {1, 17, 64}) {
    for (const int seq_kv : {1, 31, 32, 50}) {
      const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
      expect_right<kCausal>(shape);
      expect_right<without_mask(kCausal)>(shape);
    }
  }
}

TEST(EmulatedPortableAttention, IsRightForEveryLayoutAndAlignment) {
  constexpr Shape kGrouped{.batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 20, .seq_kv = 35};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_right<with_alignment(16, 64)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(8, 48)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(4, 64)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(2, 48)>(kGrouped, {.memory = memory, .with_lse = false});
  }
}

/// A NaN in K, or a score that is NaN, makes a row NaN when the row sees the key, and no other.
TEST(EmulatedPortableAttention, NaNInKReachesTheRowsThatSeeIt) {
  constexpr Shape kShape{.heads_q = 1, .seq_q = 60, .seq_kv = 70};
  for (const int key : {0, 37, 69}) {
    Attention<kBase> attention(kShape, {});
    attention.k().at(0, 0, key, 5) = bits_of(NAN, DType::fp16);
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << "key " << key;
  }
}

/// NaN and infinity in V reach one column of the rows that see the key. Rows that do not, but share
/// a tile with rows that do, multiply by 0 (all rows do in torch's math path); others stay clean.
TEST(EmulatedPortableAttention, NaNInVReachesItsColumn) {
  constexpr Shape kShape{.heads_q = 1, .seq_q = 64, .seq_kv = 64};
  constexpr int kKey = 40;
  constexpr int kColumn = 7;
  for (const float value : {NAN, HUGE_VALF}) {
    Attention<kBase> attention(kShape, {});
    attention.v().at(0, 0, kKey, kColumn) = bits_of(value, DType::fp16);
    attention.run(CopyTime::late, Pace::together);
    for (int row = 0; row < 64; ++row) {
      EXPECT_TRUE(std::isfinite(attention.o(0, 0, row, kColumn + 1))) << row;
      EXPECT_TRUE(std::isfinite(attention.lse(0, 0, row))) << row;
      if (row < 32) {
        EXPECT_TRUE(std::isfinite(attention.o(0, 0, row, kColumn))) << row;
      } else if (row >= kKey) {
        EXPECT_FALSE(std::isfinite(attention.o(0, 0, row, kColumn))) << row;
      }
    }
  }
}

/// Scores of -infinity count as hidden, alone and in company, in the first tile and in later ones;
/// +infinity gives NaN, as infinity minus infinity does.
TEST(EmulatedPortableAttention, InfiniteScoresAreWhatSoftmaxMakesOfThem) {
  constexpr PortableAttentionConfig kConfig = without_mask(kBase);
  constexpr Shape kShape{.heads_q = 1, .seq_q = 40, .seq_kv = 70};
  constexpr std::uint16_t kMinusInfinity = 0xfc00;
  const auto expect_reference = [&](const std::vector<int>& keys, float q_sign, int rows) {
    Attention<kConfig> attention(kShape, {});
    for (int row = 0; row < kShape.seq_q; ++row) {
      attention.q().at(0, 0, row, 3) = bits_of(row < rows ? q_sign : 1.0F, DType::fp16);
    }
    for (const int key : keys) {
      attention.k().at(0, 0, key, 3) = kMinusInfinity;
    }
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << keys.size() << " keys, q " << q_sign;
  };
  std::vector<int> every_key;
  for (int key = 0; key < kShape.seq_kv; ++key) {
    every_key.push_back(key);
  }
  const std::vector<int> first_tile(every_key.begin(), every_key.begin() + 32);
  expect_reference({40}, 1.0F, 40);
  expect_reference(first_tile, 1.0F, 40);
  expect_reference(every_key, 1.0F, 40);
  expect_reference({40}, -1.0F, 10);
  expect_reference({69}, -1.0F, 40);
}

/// The same scores without XOR-swizzled rows conflict, so conflicts are seen.
TEST(EmulatedPortableAttention, RowsThatAreNotSwizzledConflict) {
  constexpr PortableAttentionConfig kConflicts = [] {
    return with(kBase, &Config::smem_swizzle, false);
  }();
  Attention<kConflicts> attention({}, {});
  const auto traffic = attention.run(CopyTime::late, Pace::together);
  EXPECT_EQ(attention.wrong_values(), 0);
  // Rows of 128 bytes: all eight rows of a matrix lie in the same banks.
  EXPECT_EQ(traffic[Access::ldmatrix].taken, 8 * traffic[Access::ldmatrix].needed);
  EXPECT_GT(traffic[Access::store].conflicts(), 0);
}

/// What the tests above rest on: a copy read too early and a barrier left out give wrong values.
TEST(EmulatedPortableAttention, PlantedFaultsShow) {
  for (const Fault fault : {Fault::copies_not_awaited, Fault::barriers_ignored}) {
    Attention<with_tile(32, 16, 2, 2)> attention({}, {.fault = fault});
    attention.run(CopyTime::late, Pace::first_warp_ahead);
    EXPECT_GT(attention.wrong_values(), 100);
  }
}

/// Every test above has the launch before write Q, K and V at the last moment.
TEST(EmulatedPortableAttention, AnAccessAheadOfTheLaunchBeforeShows) {
  Attention<with_tile(32, 16, 2, 2)> attention({}, {.fault = Fault::launch_not_awaited});
  attention.run(CopyTime::early, Pace::first_warp_ahead);
  EXPECT_GT(attention.wrong_values(), 100);
  Attention<by_tma(with_tile(32, 16, 2, 2))> mapped({}, {.fault = Fault::launch_not_awaited});
  mapped.run(CopyTime::early, Pace::first_warp_ahead);
  EXPECT_GT(mapped.wrong_values(), 100);
}

}  // namespace
}  // namespace swr::portable_test

// Portable attention whose keys are divided, among CTAs or among the warps of one.

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

// The portable attention kernel on the CPU: K and V brought by tensor maps.

namespace swr::portable_test {
namespace {

TEST(EmulatedPortableAttention, KeyGroupsTakeKAndVByTensorMaps) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 140};
  constexpr PortableAttentionConfig kPersistent =
      key_groups_scheduled(Order::sawtooth, Persistence::persistent);
  expect_right<by_tma(split(packed(kPersistent)))>(kShape, {.section_heads = 2, .kv_splits = 2});
  expect_right<by_tma(packed(kPersistent))>(kShape);
}

/// Panels of 64 columns and of 32, full and not.
TEST(EmulatedPortableAttention, KAndVMayComeByTensorMapsForEveryHeadDim) {
  expect_right<by_tma(with_head_dim(16, DType::fp16, true))>();
  expect_right<by_tma(with_head_dim(48, DType::bf16, true))>();
  expect_right<by_tma(with_head_dim(64, DType::bf16, false))>();
  expect_right<by_tma(with_head_dim(80, DType::fp16, true))>();
  expect_right<by_tma(with_head_dim(96, DType::fp16, false))>();
  constexpr Shape kOneHead{.heads_q = 1};
  expect_right<by_tma(with_head_dim(112, DType::bf16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(128, DType::bf16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(160, DType::fp16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(192, DType::bf16, false))>(kOneHead);
  expect_right<by_tma(with_head_dim(256, DType::fp16, true))>(kOneHead);
}

TEST(EmulatedPortableAttention, KAndVMayComeByTensorMapsForEveryTileAndDepth) {
  expect_right<by_tma(with_tile(16, 16, 1, 1))>();
  expect_right<by_tma(with_tile(16, 16, 1, 4))>();
  expect_right<by_tma(with_tile(32, 48, 2, 3))>();
  expect_right<by_tma(with_tile(48, 80, 3, 1))>();
  expect_right<by_tma(with_tile(64, 32, 4, 2))>();
  expect_right<by_tma(with_tile(80, 32, 5, 2))>();
}

/// Rings that turn several times, over several Q tiles of one CTA; tiles that the mask leaves out.
TEST(EmulatedPortableAttention, TensorMapsKeepTheRingInOrderFromQTileToQTile) {
  constexpr auto kOneCta = [](int stages) {
    return with(by_tma(with_tile(32, 16, 2, stages)), &Config::persistence, Persistence::persistent,
                &Config::order, Order::sawtooth);
  };
  constexpr Shape kLong{.heads_q = 2, .seq_q = 100, .seq_kv = 120};
  expect_right<kOneCta(1)>(kLong, {.workers = 1});
  expect_right<kOneCta(2)>(kLong, {.workers = 1});
  expect_right<kOneCta(3)>(kLong, {.workers = 1, .longest_first = true});
  expect_right<without_mask(kOneCta(4))>(kLong, {.workers = 3});
  constexpr Shape kHidden{.heads_q = 2, .seq_q = 100, .seq_kv = 40};
  expect_right<kOneCta(2)>(kHidden, {.workers = 1});
}

TEST(EmulatedPortableAttention, TensorMapsServeEveryLengthLayoutAndSchedule) {
  constexpr PortableAttentionConfig kCausal = by_tma(with_tile(32, 16, 2, 2));
  for (const int seq_q : {1, 17, 64}) {
    for (const int seq_kv : {1, 31, 50}) {
      const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
      expect_right<kCausal>(shape);
      expect_right<without_mask(kCausal)>(shape);
    }
  }
  constexpr Shape kGrouped{.batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 20, .seq_kv = 35};
  expect_right<kCausal>(kGrouped, {.memory = MemoryOrder::bhsd});
  expect_right<kCausal>(kGrouped, {.memory = MemoryOrder::bshd});
  expect_right<by_tma(scheduled(Order::right_to_left, Persistence::grid))>();
  expect_right<by_tma(scheduled(Order::sawtooth, Persistence::pairs))>();
  expect_right<by_tma(scheduled(Order::cyclic, Persistence::snake))>();
}

TEST(EmulatedPortableAttention, TensorMapsServeWorkThatIsParked) {
  constexpr auto kLarge = [](int stages) {
    return with(by_tma(with_tile(32, 48, 1, stages)), &Config::head_dim, 128, &Config::persistence,
                Persistence::persistent);
  };
  static_assert(kLarge(1).parks_work());
  constexpr Shape kShape{.heads_q = 2, .seq_q = 60, .seq_kv = 100};
  expect_right<kLarge(1)>(kShape, {.workers = 2});
  expect_right<kLarge(2)>(kShape, {.workers = 2});
}

TEST(EmulatedPortableAttention, TensorMapsServeSplitsAndPackedHeads) {
  constexpr Shape kShape{.batch = 2, .heads_q = 8, .heads_kv = 2, .seq_q = 9, .seq_kv = 100};
  for (const int kv_splits : {2, 3, 16}) {
    const Launch launch{.kv_splits = kv_splits};
    expect_right<by_tma(split(packed(with_tile(16, 16, 1, 4))))>(kShape, launch);
    expect_right<by_tma(split(packed(with_tile(64, 32, 4, 1))))>(kShape, launch);
    expect_right<by_tma(split(packed(with_tile(64, 32, 4, 3))))>(kDecode, launch);
    expect_right<by_tma(split(packed(scheduled(Order::sawtooth, Persistence::persistent))))>(
        kShape, launch);
  }
}

TEST(EmulatedPortableAttention, PlantedFaultsOfTensorMapsShow) {
  constexpr Shape kLong{.heads_q = 1, .seq_q = 32, .seq_kv = 200};
  for (const auto& [fault, copies] : {std::pair{Fault::copies_not_awaited, CopyTime::late},
                                      std::pair{Fault::slots_not_awaited, CopyTime::early}}) {
    Attention<by_tma(with_tile(32, 16, 2, 2))> attention(kLong, {.fault = fault});
    attention.run(copies, Pace::first_warp_ahead);
    EXPECT_GT(attention.wrong_values(), 100);
  }
}

}  // namespace
}  // namespace swr::portable_test
