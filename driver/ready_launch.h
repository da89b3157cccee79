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

/// Kernels that nobody chooses, such as those that run ahead of a chosen one: compiled and loaded
/// into the context when they are first asked for. Safe from any thread.
class FixedKernels {
 public:
  FixedKernels() = default;
  virtual ~FixedKernels() = default;
  FixedKernels(const FixedKernels&) = delete;
  FixedKernels& operator=(const FixedKernels&) = delete;

  /// The function `entry` of the template `file`. Throws: Error{not_compiled} where nothing may be
  /// compiled; what Generator::compile_template throws; DriverError.
  virtual CUfunction function(const char* file, const char* entry) = 0;
};

/// What launches of such kernels take.
struct FixedSite {
  const DeviceInfo& device;
  FixedKernels& kernels;
  const LaunchCalls& calls;
};

/// What launches of one context share. Lives as long as the context's kernels.
struct ServingTools {
  const DeviceInfo& device;
  TileCounters& tile_counters;
  SplitMemory& split_memory;
  FixedKernels& fixed_kernels;
  /// LaunchSite::functions of the launches, for what has to be asked of them before.
  std::span<const CUfunction> functions = {};
};

/// Where a launch goes.
struct LaunchSite {
  const LaunchCalls& calls;
  /// Of the kernel, as Kernel::handles(): the entry, then CompiledKernel::further_entries.
  std::span<const CUfunction> functions;
  LaunchOverlap overlap = LaunchOverlap::none;
  CUstream stream = nullptr;

  CUfunction entry() const { return functions.front(); }
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

  /// Does what the first launch of such a call would do besides, and says how much memory of the
  /// caller's a launch takes, in bytes. Throws: as launch().
  virtual long long prepare(const void* /*call*/) const { return 0; }

  /// Dynamic shared memory that launches of each function take. Empty, as by default, where every
  /// launch of the cubin takes smem_bytes() of the problem.
  virtual std::vector<int> smem_bytes_by_entry() const { return {}; }
};

}  // namespace swr
