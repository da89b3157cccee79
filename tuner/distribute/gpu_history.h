// SPDX-License-Identifier: MIT
// What each GPU of a run on several did: the problems it tuned and how its speed, by a kernel that
// all of them measure, changed and compares to the others'.
#pragma once

#include "core/json.h"
#include "tuner/evaluator.h"
#include "tuner/run/finals.h"
#include "tuner/run/progress.h"
#include <swr/store.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// The problem whose default variant all GPUs measure: long enough to load any of them fully, short
/// enough to take a second or two with verification.
/// Throws: Error{not_found} where no operation has one.
Problem reference_problem();

/// Verifies and times the reference variant as any other; `kernels` is asked for
/// reference_problem(). GPU and card are the caller's to fill in. Throws: what the evaluator and
/// the source throw.
GpuReference measure_reference(Evaluator& evaluator, const KernelSource& kernels);

/// One GPU's part in a run.
struct GpuHistory {
  int gpu = 0;
  std::string card;
  /// In the order taken; those after the first follow a problem each.
  std::vector<GpuReference> references;
  /// Why it measures no further; empty while it does.
  std::string lost_because;
};

/// How a GPU's references compare; nothing where none succeeded.
struct GpuSpeed {
  double first_us = 0.0;
  double last_us = 0.0;
  double median_us = 0.0;
  /// The slowest over the fastest, minus 1.
  double spread = 0.0;
  /// The median over that of the fastest GPU, minus 1.
  double behind = 0.0;
};
std::vector<std::optional<GpuSpeed>> gpu_speeds(std::span<const GpuHistory> histories);

/// A row for each GPU, then a sentence for each that drifted, or is slower than the fastest, by
/// more than noise explains, and for each that was lost.
/// `width` is that of a terminal, 0 any.
void print_gpu_histories(std::ostream& out, std::span<const GpuHistory> histories,
                         std::size_t width = 0);
Json gpu_histories_record(std::span<const GpuHistory> histories);

// What a person sees while several GPUs tune side by side: one line for all of them.

/// Writes runs done and total, variants per second of all GPUs together, how far each GPU is with
/// its problem, and failures by state. A line of its own says what each GPU begins.
class TeamProgress {
 public:
  /// `runs` is the number of begin() calls to expect. As StatusLine.
  TeamProgress(std::ostream& out, bool redraw, std::span<const int> gpus, std::size_t runs,
               StatusLine::Clock clock = std::chrono::steady_clock::now, std::size_t width = 0);
  ~TeamProgress();
  TeamProgress(const TeamProgress&) = delete;
  TeamProgress& operator=(const TeamProgress&) = delete;

  /// What the GPU's thread tells of its steps; different ones may be told at once.
  Progress& member(std::size_t number);

  /// Time has passed; see Progress::tick().
  void tick();

  /// Has others write to the terminal: the line is ended, and nothing is shown meanwhile.
  void quietly(const std::function<void()>& write);

 private:
  class Member;

  /// Runs `change` and shows what it changed, when that is due.
  template <typename Change>
  void update(Change&& change);
  std::string status() const;

  std::mutex mutex_;
  // Guarded by mutex_.
  StatusLine line_;
  std::size_t runs_;
  std::size_t runs_done_ = 0;
  std::size_t tried_ = 0;
  std::map<ResultState, std::size_t> failures_;
  std::chrono::steady_clock::time_point started_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace swr
