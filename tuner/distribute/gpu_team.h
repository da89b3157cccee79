// SPDX-License-Identifier: MIT
// Several equal GPUs of one host at one list of problems. Each has a thread and an evaluator of its
// own and tunes one problem at a time, so that all measurements of a problem come from one GPU; it
// takes the next one when it is free.
#pragma once

#include "tuner/evaluator.h"
#include <swr/error.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace swr {

// A list of pieces of work for threads of one process, each of which takes the next piece when it
// is free.

/// Used by any number of threads.
class HandOut {
 public:
  /// Gives the next piece, each once; empty when none is left. Never called by two threads at once.
  using Source = std::function<std::optional<std::size_t>()>;

  explicit HandOut(Source source) : source_(std::move(source)) {}

  /// A piece that is the caller's until done() or give_back(). Waits while others have the last
  /// pieces, because one may be given back; empty when all are done or after close().
  std::optional<std::size_t> take();

  void done();

  /// Hands the piece out once more. False when it was given back before: whoever takes it fails at
  /// it, so that nothing is handed out from now on.
  bool give_back(std::size_t piece);

  /// Nothing is handed out from now on.
  void close();

 private:
  std::optional<std::size_t> next_piece();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Source source_;
  std::deque<std::size_t> returned_;
  std::set<std::size_t> ever_returned_;
  std::size_t in_hand_ = 0;
  bool is_closed_ = false;
};

/// What the GPUs of a team do. Each member is called from one thread, which lives as long as its
/// evaluator; different members are called at once.
class TeamWork {
 public:
  TeamWork() = default;
  virtual ~TeamWork() = default;
  TeamWork(const TeamWork&) = delete;
  TeamWork& operator=(const TeamWork&) = delete;

  /// Throws: Error when nothing can be measured on this GPU.
  virtual std::unique_ptr<Evaluator> start(std::size_t member) = 0;

  /// Called before a member's first piece and after each one it has tuned.
  virtual void check(std::size_t member, Evaluator& evaluator,
                     std::optional<std::size_t> tuned) = 0;

  /// Tunes a piece, or the rest of one that another member began.
  virtual void tune(std::size_t member, Evaluator& evaluator, std::size_t piece) = 0;

  /// The member measures no further, for this reason; others do its work. One call at a time.
  virtual void lost(std::size_t member, const Error& why) = 0;
};

/// In what two GPUs differ, as "sm_count is 132 and 114"; empty when results of one are valid for
/// the other. Stricter than same_device(): all that the driver says must be equal.
std::string difference(const DeviceInfo& a, const DeviceInfo& b);

/// Says that results of one GPU are not valid for another one, and what to do.
Error unequal_gpus(int gpu, int other, const std::string& difference);

/// Works until the source has no piece left. `gpus` are the numbers of the members for people.
/// What an evaluator throws costs the team this member only: its piece is handed out once more, and
/// tune() continues from what is stored. When that happens twice to a piece, when no member is left
/// to do one, or when anything else throws, the others finish the piece they have.
/// Throws: Error{invalid_argument} naming the difference, before anything is tuned, when the GPUs
/// are not equal; the first exception of start(); the first other exception that ended the work.
void run_team(std::span<const int> gpus, const HandOut::Source& next, TeamWork& work);

}  // namespace swr
