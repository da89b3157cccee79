// SPDX-License-Identifier: MIT
// A list of pieces of work for threads of one process, each of which takes the next piece when it
// is free.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

namespace swr {

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

}  // namespace swr
