// SPDX-License-Identifier: MIT
// The Hopper attention backward kernels, templates and all, run on the CPU for one problem.
#pragma once

#include "attention_backward/hopper/kernel.cuh"
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "tests/emulation/backward_memory.h"
#include "tests/emulation/resident_grid.h"
#include "tests/emulation/simt.h"

#include <cmath>
#include <functional>

namespace emulation {

/// What a call can choose when the kernels are compiled.
struct HopperBackwardChoice {
  int workers = 2;
  int parts = 1;
  bool last_kv_first = false;
  int bands = 1;
  Fault fault = Fault::none;
  CopyTime copies = CopyTime::early;
  Pace pace = Pace::together;
  /// CTAs of the pass over K and V tiles that run side by side; 0: one after the other.
  unsigned room = 0;
  unsigned seed = 1;
};

/// Kernels of one variant. Q is ignored where the pass over K and V tiles sums dQ.
template <swr::HopperKeyPassConfig K, swr::QueryPassConfig Q>
class HopperBackwardProblem : public BackwardMemory {
 public:
  HopperBackwardProblem(const AttentionCase& problem, const HopperBackwardChoice& choice)
      : BackwardMemory(problem, K.dtype, MemoryOrder::bshd, 16, 11, true), choice_(choice) {}

  /// Forward in fp64, then the kernels. False when CTAs wait for each other for ever.
  bool run() {
    const swr::AttentionBackwardGeometry geometry = prepare(make_plan());
    if constexpr (K.sums_dq()) {
      run(geometry.prepare, [this] { swr::portable::prepare<K>(params_); });
    } else {
      run(geometry.query_pass, [this] { swr::portable::run_query_pass<Q>(params_, 0); });
    }
    const bool ended = run_key_pass(geometry.key_pass);
    if (ended && geometry.finish.grid_x > 0) {
      run(geometry.finish, [this] { swr::portable::finish<K>(params_); });
    }
    return ended;
  }

  /// Of the pass over K and V tiles, unless CTAs ran side by side.
  const SharedTraffic& traffic() const { return traffic_; }

 private:
  swr::AttentionBackwardPlan make_plan() const {
    swr::AttentionBackwardPlan plan = swr::plan_of_configs(K, Q);
    plan.workers = plan.query_workers = choice_.workers;
    plan.parts = choice_.parts;
    plan.last_kv_first = choice_.last_kv_first;
    plan.bands = choice_.bands;
    return plan;
  }

  /// The launch before wrote the workspace.
  Launch launch(const swr::KernelLaunch& kernel) {
    before_.writes(words_, kPoison);
    return {.grid = static_cast<unsigned>(kernel.grid_x),
            .threads = kernel.block_x,
            .smem_bytes = kernel.dynamic_smem_bytes,
            .copies = choice_.copies,
            .pace = choice_.pace,
            .fault = choice_.fault,
            .end_launch_before = std::exchange(before_, {})};
  }
  void run(const swr::KernelLaunch& how, const std::function<void()>& kernel) {
    emulation::run(launch(how), kernel);
  }

  bool run_key_pass(const swr::KernelLaunch& how) {
    using swr::ptx::map_of;
    using swr::ptx::MappedTensor;
    const MappedTensor q = mapped(q_, K.row_box());
    const MappedTensor k = mapped(k_, K.key_box());
    const MappedTensor v = mapped(v_, K.key_box());
    const MappedTensor d_o = mapped(d_o_, K.row_box());
    const MappedTensor dk = mapped(dk_, K.gradient_box());
    const MappedTensor dv = mapped(dv_, K.gradient_box());
    const std::array<swr::TensorMap, 6> maps{map_of(q),   map_of(k),  map_of(v),
                                             map_of(d_o), map_of(dk), map_of(dv)};
    const auto kernel = [&] {
      swr::hopper::run_key_pass<K>(params_, {maps[0], maps[1], maps[2], maps[3], maps[4], maps[5]},
                                   0);
    };
    if (choice_.room > 0) {
      return ResidentGrid(launch(how), choice_.room, choice_.seed, kernel).run();
    }
    traffic_ = emulation::run(launch(how), kernel);
    return true;
  }

  static swr::ptx::MappedTensor mapped(StridedTensor& tensor, const swr::TensorBox& box) {
    const TensorSizes& sizes = tensor.sizes();
    const swr::TensorStrides& strides = tensor.strides();
    return {.base = tensor.address(),
            .sizes = {sizes.columns, sizes.seq, sizes.heads, sizes.batch},
            .strides = {1, strides.seq, strides.head, strides.batch},
            .box = box};
  }

  HopperBackwardChoice choice_;
  LaunchBefore before_;
  SharedTraffic traffic_;
};

}  // namespace emulation
