// SPDX-License-Identifier: MIT
// The portable attention backward kernels run on the CPU against fp64: head_dims, tiles, warps and
// stages. Also: no access to shared memory conflicts with another of its instruction.
#include "tests/emulation/attention_backward_cases.h"

namespace swr {
namespace {

TEST(EmulatedAttentionBackward, EveryHeadDimIsRight) {
  constexpr AttentionCase kOneHead{.seq_q = 40, .seq_kv = 50};
  expect_right<with_dims(kFused, 16, 16, DType::bf16)>(kOneHead);
  expect_right<without_sums(with_dims(kFused, 48, 48, DType::fp16))>(kOneHead);
  expect_right<in_order(with_dims(kFused, 80, 80, DType::fp16))>(kOneHead);
  expect_right<with_dims(kFused, 96, 96, DType::bf16)>(kOneHead);
  expect_right<in_order(with_dims(kFused, 64, 32, DType::fp16))>(kOneHead);
  expect_right<without_sums(with_dims(kFused, 32, 80, DType::bf16))>(kOneHead);
}

TEST(EmulatedAttentionBackward, EveryTileIsRight) {
  expect_right<with_tile(48, 48, 3, 48, 2)>({.seq_q = 60, .seq_kv = 70});
  expect_right<with_tile(64, 32, 1, 32, 2)>();
  expect_right<in_order(with_tile(64, 64, 4, 16, 1))>();
  expect_right<in_order(with_tile(16, 64, 2, 16, 2))>();
  expect_right<without_sums(with_tile(32, 64, 2, 32, 2))>();
}

TEST(EmulatedAttentionBackward, WarpsMayShareKeys) {
  constexpr KeyPassConfig kWide =
      with_dims(shared(with_tile(32, 32, 4, 16, 1), 2), 96, 64, DType::fp16);
  expect_right<shared(with_tile(32, 16, 2, 16, 1), 2)>();
  expect_right<in_order(shared(with_tile(64, 32, 2, 32, 1), 2))>();
  expect_right<kWide>({.seq_q = 50, .seq_kv = 40});
  expect_right<without_sums(kWide)>({.seq_q = 50, .seq_kv = 40});
}

TEST(EmulatedAttentionBackward, FourSumsMayBeAddedAtOnce) {
  constexpr KeyPassConfig kWide = [] {
    KeyPassConfig config = with_tile(64, 32, 2, 32, 1);
    config.wide_adds = true;
    return config;
  }();
  expect_right<kWide>();
}

constexpr QueryPassConfig query_tile(int m, int n, int warps, int keys, int stages, Order order,
                                     Persistence persistence) {
  QueryPassConfig config = query_of(kFused);
  config.tile_m = m;
  config.tile_n = n;
  config.warps = warps;
  config.keys_at_once = keys;
  config.stages = stages;
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedAttentionBackward, EveryPassOverQTilesIsRight) {
  constexpr KeyPassConfig kKeys = without_sums(kFused);
  constexpr AttentionCase kGrouped{
      .batch = 2, .heads_q = 2, .heads_kv = 1, .seq_q = 70, .seq_kv = 90};
  expect_right<kKeys, query_tile(16, 16, 1, 16, 2, Order::sawtooth, Persistence::persistent)>(
      kGrouped);
  expect_right<kKeys, query_tile(64, 48, 2, 16, 1, Order::right_to_left, Persistence::snake)>(
      kGrouped);
  expect_right<kKeys, query_tile(48, 64, 3, 32, 2, Order::cyclic, Persistence::pairs)>(kGrouped);
  expect_right<kKeys, query_tile(32, 32, 1, 32, 2, Order::cyclic, Persistence::grid)>(kGrouped);
}

}  // namespace
}  // namespace swr
