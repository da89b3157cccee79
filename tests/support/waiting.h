// SPDX-License-Identifier: MIT
// Waiting that ends, and time that others on the machine do not lengthen.
#pragma once

#include "tests/support/test.h"

#include <ctime>

namespace swr {

/// Waits until `condition` holds. False after a minute and a half: what was waited for never comes.
template <typename Condition>
bool comes_true(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Of a processor, that this process has used.
inline double processor_s() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace swr
