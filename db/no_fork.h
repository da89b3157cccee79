// SPDX-License-Identifier: MIT
// Keeps fork() from copying locks that somebody holds.
#pragma once

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace swr {

/// While one lives, fork() in another thread waits: a child would find SQLite's locks taken for
/// ever. A thread has one at a time, and none where it forks.
class NoFork {
 public:
  NoFork() {
    [[maybe_unused]] static const int once = pthread_atfork(wait_for_all, go_on, go_on);
    const std::scoped_lock lock(gate_);
    ++living_;
  }
  ~NoFork() {
    --living_;
    living_.notify_all();
  }
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

 private:
  static void wait_for_all() {
    gate_.lock();
    for (int now = living_; now != 0; now = living_) {
      living_.wait(now);
    }
  }
  static void go_on() { gate_.unlock(); }

  /// Of those that begin, so that they cannot keep fork() waiting by turns.
  inline static std::mutex gate_;
  inline static std::atomic<int> living_ = 0;
};

}  // namespace swr
