// SPDX-License-Identifier: MIT
// Ctrl-C, or SIGTERM as batch systems send it, ends a tuning run after the variant in hand; a
// second one ends the program at once.
#pragma once

#include "tuner/cli/commands.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <stop_token>
#include <thread>

namespace swr::cli {

/// Receives SIGINT and SIGTERM while it lives. A handler would not do: NVRTC installs its own
/// during a compilation and exits the process from it. So both are blocked in the calling thread
/// and in all it starts from then on, and a thread of its own waits for them.
class InterruptListener {
 public:
  /// `acknowledge` is called once, from the listener's thread, as soon as one arrives: what is
  /// in hand may take a while.
  explicit InterruptListener(std::function<void()> acknowledge = [] {});
  ~InterruptListener();
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

  /// True after one arrived.
  bool interrupted() const { return interrupted_; }

 private:
  void listen(const std::stop_token& stop);

  std::function<void()> acknowledge_;
  sigset_t former_mask_{};
  std::atomic<bool> interrupted_ = false;
  std::jthread thread_;
};

/// Says on standard error that the run ends, and how to end it at once.
void acknowledge_interrupt(const Session& session);

}  // namespace swr::cli
