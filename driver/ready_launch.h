// SPDX-License-Identifier: MIT
// A kernel that a program serves with: loaded, with all that its launches need.
#pragma once

#include "driver/cuda_driver.h"
#include "driver/split_memory.h"
#include "driver/tile_counters.h"
#include <swr/device.h>

#include <span>

namespace swr {

/// What launches of one context share. Lives as long as the context's kernels.
struct ServingTools {
  const DeviceInfo& device;
  TileCounters& tile_counters;
  SplitMemory& split_memory;
};

/// Where a launch goes.
struct LaunchSite {
  const LaunchCalls& calls;
  CUfunction function = nullptr;
  LaunchOverlap overlap = LaunchOverlap::none;
  CUstream stream = nullptr;
  /// CompiledKernel::further_entries.
  std::span<const CUfunction> further = {};
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
};

}  // namespace swr
