// SPDX-License-Identifier: MIT
#include "tuner/measure/power_meter.h"

namespace swr {
namespace {

/// The counter right after a step.
struct Step {
  double at_s = 0.0;
  long long total_mj = 0;
};

}  // namespace

void settle(const PowerSource& source, double settle_s, const std::function<void()>& keep_busy) {
  for (const double begin_s = source.now_s(); source.now_s() - begin_s < settle_s;) {
    keep_busy();
    source.wait();
  }
}

std::optional<double> mean_power_w(const PowerSource& source, const PowerWindow& window,
                                   const std::function<void()>& keep_busy) {
  constexpr double kMillijoulesPerJoule = 1e3;
  const double begin_s = source.now_s();
  std::optional<Step> first;
  std::optional<long long> last_mj;
  while (source.now_s() - begin_s < window.most_s) {
    keep_busy();
    source.wait();
    const auto total_mj = source.total_mj();
    if (!total_mj) {
      return std::nullopt;
    }
    const Step now{source.now_s(), *total_mj};
    const bool stepped = last_mj && *last_mj != now.total_mj;
    last_mj = now.total_mj;
    if (!stepped) {
      continue;
    }
    if (!first) {
      first = now;
    } else if (now.at_s - first->at_s >= window.least_s) {
      return static_cast<double>(now.total_mj - first->total_mj) / kMillijoulesPerJoule /
             (now.at_s - first->at_s);
    }
  }
  return std::nullopt;
}

}  // namespace swr
