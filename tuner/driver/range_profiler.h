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

/// What a context can count.
class RangeProfiler {
 public:
  /// Throws: Error{no_counters} when CUPTI cannot be loaded, or the driver or chip refuses.
  RangeProfiler(CUcontext context, int device_ordinal);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  /// Counters this chip does not have, as text; empty when all are there.
  const std::string& missing() const;

 private:
  friend class CountingSession;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The profiler while it is switched on. Its first count takes about 125 ms on an H200 and its end
/// 11 ms, so one session should count many kernels; nothing should be timed while it lives.
class CountingSession {
 public:
  /// The profiler must outlive the session. Throws: Error{no_counters}.
  explicit CountingSession(const RangeProfiler& profiler);
  ~CountingSession();
  CountingSession(const CountingSession&) = delete;
  CountingSession& operator=(const CountingSession&) = delete;

  /// Counts what `launch` starts and waits for. The chip counts only some metrics at a time, so the
  /// pair is called once per pass; `launch` must do the same work each time, and CUPTI neither
  /// saves nor restores memory. What `prepare` does is not counted. Throws: Error{no_counters};
  /// whatever the two throw.
  Counters count(const std::function<void()>& prepare, const std::function<void()>& launch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
