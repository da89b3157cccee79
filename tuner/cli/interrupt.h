// SPDX-License-Identifier: MIT
// Ctrl-C ends a tuning run after the variant in hand; a second one ends the program at once.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

namespace swr::cli {

/// Receives SIGINT while it lives. A handler would not do: NVRTC installs its own during a
/// compilation and exits the process from it. So SIGINT is blocked in the calling thread and in all
/// it starts from then on, and a thread of its own waits for it.
class InterruptListener {
 public:
  InterruptListener();
  ~InterruptListener();
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

  /// True after SIGINT arrived.
  bool interrupted() const { return interrupted_; }

 private:
  void listen(const std::stop_token& stop);

  sigset_t former_mask_{};
  std::atomic<bool> interrupted_ = false;
  std::jthread thread_;
};

}  // namespace swr::cli
