// SPDX-License-Identifier: MIT
// Variants whose hardware counters are still to be read, many at once.
#pragma once

#include "tuner/run/tuner.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace swr {

/// Switching the profiler on and passing over the launches takes about a fifth of a second, and
/// three times that while other GPUs of the host are counted, so it pays to do it seldom. The rows
/// are stored already, and another run counts what this one could not.
class CounterBacklog {
 public:
  CounterBacklog(Evaluator& evaluator, Store& store, Progress& progress, TuneReport& report)
      : evaluator_(evaluator), store_(store), progress_(progress), report_(report) {}

  /// Says of a measurement that its counters are still to be read.
  static void mark(Measurement& measurement);
  /// True for what was measured by a run that ended before it was counted.
  static bool lacks(const VariantResult& result);

  /// A success at `place` among the report's results, which the row holds. Counts when the oldest
  /// has waited for long.
  void add(std::size_t place, long long row_id, std::shared_ptr<const CompiledKernel> kernel);

  /// All that wait, into the report and their rows. Throws: as Evaluator::count() and
  /// Store::record_counters().
  void count();

 private:
  struct Uncounted {
    std::size_t place = 0;
    long long row_id = 0;
    std::shared_ptr<const CompiledKernel> kernel;
  };

  void record(const std::vector<Uncounted>& counted);

  Evaluator& evaluator_;
  Store& store_;
  Progress& progress_;
  TuneReport& report_;
  std::vector<Uncounted> uncounted_;
  std::chrono::steady_clock::time_point waiting_since_;
};

}  // namespace swr
