// SPDX-License-Identifier: MIT
// Small configurations of the portable attention backward, and what every test expects of a run.
#pragma once

#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "tests/emulation/backward_memory.h"
#include "tests/emulation/resident_grid.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"
#include "tests/support/with.h"

#include <cmath>
#include <functional>

namespace emulation {

/// What a call can choose when the kernels are compiled.
struct BackwardChoice {
  MemoryOrder memory = MemoryOrder::bhsd;
  int section_heads = 1;
  int workers = 3;
  int parts = 1;
  bool last_kv_first = false;
  int bands = 1;  ///< Not of tiles that rotate and take turns.
  bool with_d_lse = false;
  Fault fault = Fault::none;
  CopyTime copies = CopyTime::early;
  Pace pace = Pace::together;
  /// CTAs of the pass over K and V tiles that run side by side; 0: one after the other.
  unsigned room = 0;
  unsigned seed = 1;
};

/// Kernels of one variant. Q is ignored where the pass over K and V tiles sums dQ.
template <swr::KeyPassConfig K, swr::QueryPassConfig Q>
class BackwardProblem : public BackwardMemory {
 public:
  BackwardProblem(const AttentionCase& problem, const BackwardChoice& choice, unsigned seed = 11)
      : BackwardMemory(problem, K.dtype, choice.memory, K.alignment_bytes, seed, choice.with_d_lse),
        choice_(choice) {}

  /// Forward in fp64, then the kernels. False when CTAs wait for each other for ever.
  bool run() {
    const swr::AttentionBackwardGeometry geometry = prepare(make_plan());
    launch_first(geometry);
    const bool ended = launch_key_pass(geometry.key_pass);
    if (ended && geometry.finish.grid_x > 0) {
      run(geometry.finish, workspace_before(), [this] { swr::portable::finish<K>(params_); });
    }
    return ended;
  }

  /// Of all kernels, unless CTAs ran side by side.
  const SharedTraffic& traffic() const { return traffic_; }

 private:
  swr::AttentionBackwardPlan make_plan() const {
    swr::AttentionBackwardPlan plan = swr::plan_of_configs(K, Q);
    plan.workers = plan.query_workers = choice_.workers;
    plan.swizzle = swr::AttentionSwizzle::head_sections;
    plan.section_heads = choice_.section_heads;
    plan.parts = choice_.parts;
    plan.last_kv_first = choice_.last_kv_first;
    plan.bands = choice_.bands;
    return plan;
  }

  Launch launch(const swr::KernelLaunch& kernel, const LaunchBefore& before) const {
    return {.grid = static_cast<unsigned>(kernel.grid_x),
            .threads = kernel.block_x,
            .smem_bytes = kernel.dynamic_smem_bytes,
            .copies = choice_.copies,
            .pace = choice_.pace,
            .fault = choice_.fault,
            .end_launch_before = before};
  }
  void run(const swr::KernelLaunch& how, const LaunchBefore& before,
           const std::function<void()>& kernel) {
    traffic_ += emulation::run(launch(how, before), kernel);
  }

  LaunchBefore inputs_before() {
    LaunchBefore before;
    for (StridedTensor* const one : {&q_, &k_, &v_, &o_, &d_o_}) {
      before.writes(one->memory(), StridedTensor::kNaN);
    }
    before.writes(lse_, NAN);
    return before;
  }
  LaunchBefore workspace_before() {
    LaunchBefore before;
    before.writes(words_, kPoison);
    return before;
  }

  void launch_first(const swr::AttentionBackwardGeometry& geometry) {
    if constexpr (K.sums_dq()) {
      run(geometry.prepare, inputs_before(), [this] { swr::portable::prepare<K>(params_); });
    } else {
      run(geometry.query_pass, inputs_before(),
          [this] { swr::portable::run_query_pass<Q>(params_, 0); });
    }
  }

  bool launch_key_pass(const swr::KernelLaunch& how) {
    const LaunchBefore before = workspace_before();
    const auto kernel = [this] { swr::portable::run_key_pass<K>(params_, 0); };
    if (choice_.room == 0) {
      run(how, before, kernel);
      return true;
    }
    return ResidentGrid(launch(how, before), choice_.room, choice_.seed, kernel).run();
  }

  BackwardChoice choice_;
  SharedTraffic traffic_;
};

}  // namespace emulation

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
  return with(kFused, &KeyPassConfig::tile_m, m, &KeyPassConfig::tile_n, n, &KeyPassConfig::warps,
              warps, &KeyPassConfig::rows_at_once, rows, &KeyPassConfig::stages, stages);
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
  return with(with_tile(16, 16, 1, 16, 1), &KeyPassConfig::order, order,
              &KeyPassConfig::persistence, persistence);
}
/// What most tests of lengths and inputs run.
inline constexpr KeyPassConfig kSmall = with_tile(16, 16, 1, 16, 1);

}  // namespace swr
