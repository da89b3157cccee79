// SPDX-License-Identifier: MIT
// The instructions of templates/common/serving_ptx.cuh on the CPU.
#pragma once

#include "common/ptx.cuh"
#include "tests/emulation/simt.h"

#include <bit>
#include <cmath>

namespace swr::ptx {

inline void st_shared_b64(unsigned shared, long long value) { st_shared(shared, value); }
inline long long ld_shared_b64(unsigned shared) { return load_from_shared<long long>(shared); }

inline float rcp_approx(float x) { return 1.0F / x; }

inline int clz(unsigned x) { return std::countl_zero(x); }

inline unsigned vote_ballot(bool holds) {
  return emulation::collective<unsigned>(holds ? 1U : 0U, [](const auto& values, auto& results) {
    unsigned ballot = 0;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      ballot |= values[lane] << lane;
    }
    results.fill(ballot);
  });
}

inline long long shfl_sync_up(long long value, int lanes) {
  return emulation::collective<long long>(value, [&](const auto& values, auto& results) {
    for (int lane = 0; lane < 32; ++lane) {
      results[static_cast<std::size_t>(lane)] =
          values[static_cast<std::size_t>(lane < lanes ? lane : lane - lanes)];
    }
  });
}

}  // namespace swr::ptx
