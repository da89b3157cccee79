// SPDX-License-Identifier: MIT
// Launches that may start while the one before ends: a chain in which every launch reads what
// others wrote, and writes what they read, gives bit for bit what it gives when each launch is
// waited for.
#pragma once

#include "tests/gpu/gpu_test.h"

#include <cstddef>
#include <vector>

namespace swr {

class LaunchChain : public GpuTest {
 protected:
  using Bytes = std::vector<std::byte>;

  explicit LaunchChain(int launches) : launches_(launches) {}

  /// The same inputs and counters each time.
  virtual void reset() = 0;
  virtual void launch(int index, LaunchOverlap overlap) = 0;
  /// The memory that holds what a chain gives.
  virtual std::vector<const DeviceBuffer*> results() const = 0;

  Bytes one_at_a_time();
  Bytes overlapping();
  void expect_overlapping_launches_give_the_same();
  void expect_captured_launches_give_the_same();

  template <typename T>
  static T* pointer(const DeviceBuffer& memory) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
    return reinterpret_cast<T*>(memory.address());
  }

 private:
  void launch_all(LaunchOverlap overlap);
  Bytes result() const;

  int launches_;
};

}  // namespace swr
