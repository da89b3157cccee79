// SPDX-License-Identifier: MIT
// A kernel that a program serves with: loaded, with all that its launches need.
#pragma once

#include "driver/cuda_driver.h"
#include "driver/split_memory.h"
#include "driver/tile_counters.h"
#include <swr/device.h>

#include <span>
#include <vector>

namespace swr {

/// What launches of one context share. Lives as long as the context's kernels.
struct ServingTools {
  const DeviceInfo& device;
  TileCounters& tile_counters;
  SplitMemory& split_memory;
  /// Of the kernel, as Kernel::handles().
  std::span<const CUfunction> functions = {};
};

/// Where a launch goes.
struct LaunchSite {
  const LaunchCalls& calls;
  CUfunction function = nullptr;
  LaunchOverlap overlap = LaunchOverlap::none;
  CUstream stream = nullptr;
};

/// Immutable; safe from any thread.
class ReadyLaunch {
 public:
  ReadyLaunch() = default;
  virtual ~ReadyLaunch() = default;
  ReadyLaunch(const ReadyLaunch&) = delete;
  ReadyLaunch& operator=(const ReadyLaunch&) = delete;

  /// Enqueues one launch. Requires: `call` is the operation's own call structure, as its part of
  /// swr/runtime.h declares it. Throws: DriverError.
  virtual void launch(const void* call, const LaunchSite& site) const = 0;

  /// Dynamic shared memory that launches of each function take. Empty, as by default, where there
  /// is one function and every launch of its cubin takes smem_bytes() of the problem.
  virtual std::vector<int> smem_bytes_by_entry() const { return {}; }
};

}  // namespace swr
