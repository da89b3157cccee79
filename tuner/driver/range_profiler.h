// SPDX-License-Identifier: MIT
// Hardware counters of single kernel launches, through CUPTI's host and Range Profiler interfaces,
// opened at run time.
#pragma once

#include <swr/result.h>

#include <cuda.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// A hardware counter and the field of Counters it fills.
struct CounterMetric {
  const char* metric;            ///< CUPTI's name.
  long long Counters::*counter;  ///< Where the value goes.
  std::string_view meaning;
  /// A chip without this metric has none of what it counts, so 0 is the true value.
  bool zero_when_absent = false;
};

/// Every counter that is collected. The names are those of GH100; a chip that lacks some still
/// delivers the others.
std::span<const CounterMetric> counter_metrics();

/// Counts launches of one context. Outside count() the profiler is off, so that timing is not
/// affected.
class RangeProfiler {
 public:
  /// Throws: Error{no_counters} when CUPTI cannot be loaded, or the driver or chip refuses.
  RangeProfiler(CUcontext context, int device_ordinal);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  /// Runs `launch`, which must launch exactly one kernel and wait for it. CUPTI replays the kernel
  /// once per pass and restores the memory it wrote in between.
  /// Throws: Error{no_counters}; whatever `launch` throws.
  Counters count(const std::function<void()>& launch);

  /// Counters this chip does not have, as text; empty when all are there.
  const std::string& missing() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
