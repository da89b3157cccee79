// SPDX-License-Identifier: MIT
// Hardware counters of single kernel launches, through CUPTI's host and Range Profiler interfaces,
// opened at run time.
#pragma once

#include <swr/result.h>

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A hardware counter and the field of AccessCounters it fills.
struct AccessMetric {
  const char* metric;
  std::optional<long long> AccessCounters::*counter;
  std::string_view meaning;
  /// As CounterMetric::zero_when_absent.
  bool zero_when_absent = false;
};

/// Every counter of accesses; docs/measuring.md says what they cover.
std::span<const AccessMetric> access_metrics();

/// What CUPTI says of metrics on a chip, by the name it has there, e.g. "GH100".
struct ChipMetrics {
  /// Metrics that it lacks, those that are 0 for want of what they count left out.
  std::string missing;
  /// Times that a launch has to run for all the others.
  std::size_t passes = 0;
};

/// Those of counter_metrics(). Needs neither a GPU nor a driver.
/// Throws: Error{no_counters} when CUPTI cannot be loaded or does not know the chip.
ChipMetrics counters_of_chip(const std::string& chip_name);
/// The same of access_metrics().
ChipMetrics accesses_of_chip(const std::string& chip_name);

/// How it is known which counters of its chip a GPU lets be read: a partition or a virtual GPU may
/// keep some of them back.
enum class Availability {
  assumed,  ///< All of them; otherwise counting fails.
  asked,    ///< Takes 130 ms on an H200, and 560 ms beside three others that are asked.
};

/// What a context can count.
class RangeProfiler {
 public:
  /// Throws: Error{no_counters} when CUPTI cannot be loaded, or the driver or chip refuses.
  RangeProfiler(CUcontext context, int device_ordinal,
                Availability availability = Availability::asked);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  /// Counters this chip does not have, as text; empty when all are there.
  const std::string& missing() const;
  /// The same of accesses. Throws: Error{no_counters} when the chip counts none of them.
  const std::string& missing_accesses() const;

 private:
  friend class CountingSession;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A launch to be counted.
struct CountedLaunch {
  /// What is done before and not counted.
  std::function<void()> prepare;
  /// Starts the work and waits for it; does the same each time it is called.
  std::function<void()> launch;
};

/// The profiler while it is switched on. Beginning a pass over the launches takes about 70 ms on an
/// H200, each launch 0.3 ms (bench/driver_costs), so one count should be of many launches; nothing
/// should be timed while it lives.
class CountingSession {
 public:
  /// The profiler must outlive the session. Throws: Error{no_counters}.
  explicit CountingSession(const RangeProfiler& profiler);
  ~CountingSession();
  CountingSession(const CountingSession&) = delete;
  CountingSession& operator=(const CountingSession&) = delete;

  /// Counts each launch. The chip counts only some metrics at a time, so all of them run once per
  /// pass, in their order; CUPTI neither saves nor restores memory.
  /// Throws: Error{no_counters}; whatever the launches throw.
  std::vector<Counters> count(std::span<const CountedLaunch> launches);

  /// How each launch goes to memory, counted likewise in passes of their own: 7 on a GH100.
  /// Throws: as count(); Error{no_counters} also when the chip counts none of them.
  std::vector<AccessCounters> count_accesses(std::span<const CountedLaunch> launches);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
