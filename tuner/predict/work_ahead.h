// SPDX-License-Identifier: MIT
// Threads that work through a list in its order, ahead of the one who needs the results.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace swr {

class WorkAhead {
 public:
  using Task = std::function<void()>;

  explicit WorkAhead(int threads);
  /// Waits for the tasks in hand; those not begun are dropped.
  ~WorkAhead() = default;
  WorkAhead(const WorkAhead&) = delete;
  WorkAhead& operator=(const WorkAhead&) = delete;
  WorkAhead(WorkAhead&&) = delete;
  WorkAhead& operator=(WorkAhead&&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }

  /// Puts the tasks in place of those not begun. Requires: no task throws.
  void replace(std::deque<Task> tasks);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_;  ///< Guarded by mutex_.
  /// Last, so that the threads end before what they use.
  std::vector<std::jthread> threads_;
};

}  // namespace swr
