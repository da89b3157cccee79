// SPDX-License-Identifier: MIT
// Keeps fork() from copying locks that somebody holds.
#pragma once

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace swr {

/// While one lives, fork() in another thread waits: a child would find locks of SQLite, libcrypto
/// and swr taken for ever. Short, and never around what waits for another process.
class NoFork {
 public:
  NoFork() {
    [[maybe_unused]] static const int once = pthread_atfork(wait_for_others, go_on, go_on);
    if (depth_++ == 0) {
      const std::scoped_lock lock(gate_);
      ++living_;
    }
  }
  ~NoFork() {
    if (--depth_ == 0) {
      --living_;
      living_.notify_all();
    }
  }
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

 private:
  static void wait_for_others() {
    const int own = depth_ > 0 ? 1 : 0;
    gate_.lock();
    for (int now = living_; now != own; now = living_) {
      living_.wait(now);
    }
    ++depth_;  // What other handlers of this thread call passes the gate.
  }
  static void go_on() {
    --depth_;
    gate_.unlock();
  }

  /// Of those that begin, so that they cannot keep fork() waiting by turns.
  inline static std::mutex gate_;
  inline static std::atomic<int> living_ = 0;
  /// Of this thread: those that live, and a fork() under way.
  inline static thread_local int depth_ = 0;
};

}  // namespace swr
