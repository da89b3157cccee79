// SPDX-License-Identifier: MIT
// Where a warp stands in a ring of tiles that mbarriers hand over.
#pragma once

namespace swr::hopper {

/// Position in a ring of tiles, and the parity of the barriers' phase there.
template <int Stages>
struct RingPosition {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance() {
    ++stage;
    if (stage == Stages) {
      stage = 0;
      parity ^= 1U;
    }
  }

  /// Several positions at once.
  __device__ __forceinline__ void advance(int positions) {
    const int next = stage + positions;
    stage = next % Stages;
    parity ^= static_cast<unsigned>(next / Stages) & 1U;
  }
};

/// The value of lane 0 in every lane. The compiler sees that it is the same: loops over it stay
/// uniform.
__device__ __forceinline__ int uniform(unsigned value) {
  return static_cast<int>(__shfl_sync(0xffffffffU, value, 0));
}

}  // namespace swr::hopper
