// SPDX-License-Identifier: MIT
// The portable attention kernel on the CPU: K and V brought by tensor maps.
#include "tests/emulation/portable_attention_problem.h"

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
    PortableAttentionConfig config = by_tma(with_tile(32, 16, 2, stages));
    config.persistence = Persistence::persistent;
    config.order = Order::sawtooth;
    return config;
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
    PortableAttentionConfig config = by_tma(with_tile(32, 48, 1, stages));
    config.head_dim = 128;
    config.persistence = Persistence::persistent;
    return config;
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
