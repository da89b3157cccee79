// SPDX-License-Identifier: MIT
// Runs the CTAs of a grid side by side on the CPU, for kernels whose CTAs wait for each other: as
// many as a device has room for are resident, and chance decides which of them goes on.
#pragma once

#include "tests/emulation/simt.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace emulation {

class ResidentGrid {
 public:
  /// `room` is the number of CTAs that are resident at a time.
  ResidentGrid(const Launch& launch, unsigned room, unsigned seed, std::function<void()> kernel)
      : launch_(launch), room_(room), random_(seed), kernel_(std::move(kernel)) {}

  /// Until all CTAs have ended, which start in the order of their index. False when all that are
  /// resident wait.
  bool run() {
    gridDim.x = launch_.grid;
    fill();
    bool ends = true;
    while (ends && !resident_.empty()) {
      ends = run_round();
    }
    cta = nullptr;
    return ends;
  }

 private:
  struct Resident {
    unsigned index;
    std::unique_ptr<Cta> state;
  };

  void fill() {
    while (resident_.size() < room_ && next_ < launch_.grid) {
      resident_.push_back({next_++, std::make_unique<Cta>(launch_)});
      resident_.back().state->launch_before_ended = launch_before_ended_;
      for (Thread& thread : resident_.back().state->threads) {
        thread.fiber = std::make_unique<Fiber>(kernel_);
      }
    }
  }

  /// Every resident CTA in random order, each a little or as far as it gets. False when nothing
  /// moves.
  bool run_round() {
    std::shuffle(resident_.begin(), resident_.end(), random_);
    bool any = false;
    for (Resident& one : resident_) {
      any = run_some(one) || any;
    }
    const auto has_ended = [](const Resident& one) {
      return std::all_of(one.state->threads.begin(), one.state->threads.end(),
                         [](const Thread& thread) { return thread.fiber->is_finished(); });
    };
    std::erase_if(resident_, has_ended);
    fill();
    return any || end_launch_before();
  }

  bool run_some(Resident& one) {
    cta = one.state.get();
    blockIdx.x = one.index;
    const std::size_t most = random_() % 8 == 0 ? 1000000 : 1 + random_() % 40;
    bool any = false;
    for (std::size_t i = 0; i < most; ++i) {
      const std::size_t warps = cta->warps.size();
      const std::size_t first = random_() % warps;
      bool moved = false;
      for (std::size_t w = 0; w < warps && !moved; ++w) {
        const std::size_t warp = (first + w) % warps;
        moved = run_threads(32 * warp, 32 * warp + 32);
      }
      if (!moved) {
        break;
      }
      any = true;
    }
    return any;
  }

  bool end_launch_before() {
    if (launch_before_ended_) {
      return false;
    }
    launch_before_ended_ = true;
    launch_.end_launch_before();
    for (Resident& one : resident_) {
      one.state->launch_before_ended = true;
    }
    return true;
  }

  Launch launch_;
  unsigned room_;
  std::mt19937 random_;
  std::function<void()> kernel_;
  std::vector<Resident> resident_;
  unsigned next_ = 0;
  bool launch_before_ended_ = false;
};

}  // namespace emulation
