// SPDX-License-Identifier: MIT
// Small configurations of the portable attention backward, and what every test expects of a run.
#pragma once

#include "tests/emulation/attention_backward_problem.h"
#include "tests/support/test.h"

namespace swr {

using emulation::Access;
using emulation::AttentionCase;
using emulation::AttentionGradients;
using emulation::AttentionInputs;
using emulation::BackwardChoice;
using emulation::BackwardProblem;
using emulation::CopyTime;
using emulation::Deviation;
using emulation::Fault;
using emulation::MemoryOrder;
using emulation::Pace;
using emulation::Values;

inline constexpr KeyPassConfig kFused{.head_dim = 32,
                                      .value_dim = 32,
                                      .dtype = DType::fp16,
                                      .causal = true,
                                      .alignment_bytes = 16,
                                      .tile_m = 32,
                                      .tile_n = 32,
                                      .warps = 2,
                                      .rows_at_once = 16,
                                      .column_groups = 1,
                                      .stages = 1,
                                      .dq_sum = DqSum::atomic,
                                      .wide_adds = false,
                                      .order = QOrder::cyclic,
                                      .persistence = Persistence::grid,
                                      .smem_swizzle = true};

inline constexpr QueryPassConfig kQuery{.head_dim = 32,
                                        .value_dim = 32,
                                        .dtype = DType::fp16,
                                        .causal = true,
                                        .alignment_bytes = 16,
                                        .tile_m = 32,
                                        .tile_n = 32,
                                        .warps = 2,
                                        .keys_at_once = 16,
                                        .stages = 1,
                                        .order = Order::cyclic,
                                        .persistence = Persistence::grid,
                                        .smem_swizzle = true};

/// The pass over Q tiles that goes with one over K and V tiles.
constexpr QueryPassConfig query_of(KeyPassConfig key, QueryPassConfig config = kQuery) {
  config.head_dim = key.head_dim;
  config.value_dim = key.value_dim;
  config.dtype = key.dtype;
  config.causal = key.causal;
  config.alignment_bytes = key.alignment_bytes;
  config.smem_swizzle = key.smem_swizzle;
  return config;
}

constexpr KeyPassConfig without_sums(KeyPassConfig config) {
  config.dq_sum = DqSum::none;
  return config;
}
constexpr KeyPassConfig in_order(KeyPassConfig config) {
  config.dq_sum = DqSum::ordered;
  return config;
}
constexpr KeyPassConfig without_mask(KeyPassConfig config) {
  config.causal = false;
  return config;
}

inline constexpr AttentionCase kShape{
    .batch = 1, .heads_q = 2, .heads_kv = 1, .seq_q = 75, .seq_kv = 90};

template <KeyPassConfig K>
AttentionCase case_of(AttentionCase shape) {
  shape.head_dim = K.head_dim;
  shape.value_dim = K.value_dim;
  shape.causal = K.causal;
  shape.scale = 1.0 / std::sqrt(K.head_dim);
  return shape;
}

inline std::string text(const AttentionCase& c) {
  return "batch " + std::to_string(c.batch) + " heads " + std::to_string(c.heads_q) + " on " +
         std::to_string(c.heads_kv) + " lengths " + std::to_string(c.seq_q) + " and " +
         std::to_string(c.seq_kv) + " head_dim " + std::to_string(c.head_dim) + "/" +
         std::to_string(c.value_dim) + (c.causal ? " causal" : "");
}

template <KeyPassConfig K, QueryPassConfig Q>
void expect_no_conflicts(const emulation::SharedTraffic& traffic) {
  for (const Access kind : {Access::ldmatrix, Access::store, Access::load}) {
    // The pass over Q tiles reads dO once for D, half of a line of two rows at a time: those meet
    // in banks where a row is longer than that.
    if (kind == Access::load && !K.sums_dq() && K.value_dim > 32) {
      continue;
    }
    EXPECT_EQ(traffic[kind].conflicts(), 0)
        << "access " << static_cast<int>(kind) << " head_dim " << K.head_dim;
  }
}

/// Runs with copies as early as may be and as late, with either end's warp ahead.
template <KeyPassConfig K, QueryPassConfig Q = query_of(K)>
void expect_right(const AttentionCase& shape = kShape, BackwardChoice choice = {}) {
  static_assert(K.is_whole() && (K.sums_dq() || Q.is_whole()));
  for (const auto& [copies, pace] : {std::pair{CopyTime::early, Pace::first_warp_ahead},
                                     std::pair{CopyTime::late, Pace::last_warp_ahead}}) {
    choice.copies = copies;
    choice.pace = pace;
    const AttentionCase problem = case_of<K>(shape);
    BackwardProblem<K, Q> backward(problem, choice);
    ASSERT_TRUE(backward.run()) << text(problem);
    const Deviation off = backward.deviation();
    EXPECT_EQ(off.wrong, 0) << text(problem);
    EXPECT_LE(off.worst, 1.0) << text(problem);
    EXPECT_EQ(backward.disturbed(), 0) << text(problem);
    if (K.smem_swizzle && K.alignment_bytes == 16 && choice.room == 0) {
      expect_no_conflicts<K, Q>(backward.traffic());
    }
  }
}

/// The three ways dQ comes about.
template <KeyPassConfig K>
void expect_all_right(const AttentionCase& shape = kShape, const BackwardChoice& choice = {}) {
  expect_right<K>(shape, choice);
  expect_right<in_order(K)>(shape, choice);
  expect_right<without_sums(K)>(shape, choice);
}

constexpr KeyPassConfig with_tile(int m, int n, int warps, int rows, int stages) {
  KeyPassConfig config = kFused;
  config.tile_m = m;
  config.tile_n = n;
  config.warps = warps;
  config.rows_at_once = rows;
  config.stages = stages;
  return config;
}
constexpr KeyPassConfig shared(KeyPassConfig config, int column_groups) {
  config.column_groups = column_groups;
  return config;
}
constexpr KeyPassConfig with_dims(KeyPassConfig config, int head_dim, int value_dim, DType dtype) {
  config.head_dim = head_dim;
  config.value_dim = value_dim;
  config.dtype = dtype;
  return config;
}
constexpr KeyPassConfig walking(QOrder order, Persistence persistence) {
  KeyPassConfig config = with_tile(16, 16, 1, 16, 1);
  config.order = order;
  config.persistence = persistence;
  return config;
}
/// What most tests of lengths and inputs run.
inline constexpr KeyPassConfig kSmall = with_tile(16, 16, 1, 16, 1);

}  // namespace swr
