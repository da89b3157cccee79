// SPDX-License-Identifier: MIT
// The portable attention kernel on the CPU: warps that share rows and divide the keys of a tile.
#include "tests/emulation/portable_attention_problem.h"

namespace swr::portable_test {
namespace {

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
