// SPDX-License-Identifier: MIT
// Turns among the consumer warpgroups: who may issue products, or compute exponentials.
#pragma once

#include "attention/hopper/config.h"
#include "common/hopper_ptx.cuh"

namespace swr::hopper {

/// Named barriers of the turns, one per consumer; 0 is __syncthreads.
inline constexpr int kFirstTurnBarrier = 1;

/// Consumers pass a token around a ring: between `take` and `pass` a consumer is alone.
template <HopperAttentionConfig C>
struct Turns {
  static constexpr int kPair = 2 * C.kWarpgroup;
  int consumer;

  /// The last consumer starts the ring, on behalf of the turn before the first.
  __device__ __forceinline__ void start() const {
    if (C.consumers() > 1 && consumer == C.consumers() - 1) {
      ptx::bar_arrive<kPair>(kFirstTurnBarrier);
    }
  }
  __device__ __forceinline__ void take() const {
    if (C.consumers() > 1) {
      ptx::bar_sync<kPair>(kFirstTurnBarrier + consumer);
    }
  }
  __device__ __forceinline__ void pass() const {
    if (C.consumers() > 1) {
      const int next = consumer + 1 == C.consumers() ? 0 : consumer + 1;
      ptx::bar_arrive<kPair>(kFirstTurnBarrier + next);
    }
  }
};

}  // namespace swr::hopper
