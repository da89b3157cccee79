// SPDX-License-Identifier: MIT
// The portable attention backward kernels, templates and all, run on the CPU for one problem.
#pragma once

#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "tests/emulation/backward_memory.h"
#include "tests/emulation/resident_grid.h"
#include "tests/emulation/simt.h"

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
