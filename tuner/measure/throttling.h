// SPDX-License-Identifier: MIT
// Which conditions of a GPU make its times worthless, and sampling that is repeated under them.
#pragma once

#include <swr/result.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace swr {

/// A bit of GpuCondition::throttle_reasons.
struct ThrottleReason {
  long long bit;
  std::string_view name;
  /// True when times taken under it say nothing about the kernel in a healthy GPU. The software
  /// power cap is no such reason: matrix kernels run into it whenever the GPU is busy.
  bool degrades;
};

/// Every reason that NVML defines.
std::span<const ThrottleReason> throttle_reasons();

/// Why times taken in this condition cannot be trusted; empty when they can. Besides the reasons
/// above: an SM clock under half of the highest that neither the power cap nor a person's setting
/// explains, as a faulty power delivery leaves behind (GB10: 500 to 850 MHz, all else healthy).
std::string degraded_because(const GpuCondition& condition,
                             std::optional<long long> highest_sm_clock_mhz);

/// What sampling under watch needs of the world.
struct Watch {
  std::function<GpuCondition()> read;
  std::optional<long long> highest_sm_clock_mhz;
  /// Gives the GPU time to recover; told how many attempts failed.
  std::function<void(int)> wait;
};

template <typename Samples>
struct Watched {
  Samples samples;
  GpuCondition before;
  GpuCondition after;
  /// As degraded_because(), of the last attempt.
  std::string degraded_because;
};

/// Takes samples anew while the GPU is degraded before or after them, 4 times at most.
template <typename Sample>
auto sample_watched(const Watch& watch, Sample&& sample) {
  constexpr int kAttempts = 4;
  for (int attempt = 1;; ++attempt) {
    const GpuCondition before = watch.read();
    Watched<decltype(sample())> watched{sample(), before, watch.read(), {}};
    watched.degraded_because = degraded_because(watched.after, watch.highest_sm_clock_mhz);
    if (watched.degraded_because.empty()) {
      // A clock that is still ramping up before the warm-up launches is no fault.
      watched.degraded_because = degraded_because(before, std::nullopt);
    }
    if (watched.degraded_because.empty() || attempt == kAttempts) {
      return watched;
    }
    watch.wait(attempt);
  }
}

}  // namespace swr
