// SPDX-License-Identifier: MIT
// What a person sees while several GPUs tune side by side: one line for all of them.
#pragma once

#include "tuner/run/progress.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace swr {

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
