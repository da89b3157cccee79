// SPDX-License-Identifier: MIT
#include "tuner/cli/interrupt.h"

#include <ostream>
#include <string>
#include <utility>

namespace swr::cli {
namespace {

sigset_t interrupt_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

InterruptListener::InterruptListener(std::function<void()> acknowledge)
    : acknowledge_(std::move(acknowledge)) {
  const sigset_t signals = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &former_mask_);
  thread_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

InterruptListener::~InterruptListener() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), SIGINT);  // Ends its wait.
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

void InterruptListener::listen(const std::stop_token& stop) {
  const sigset_t signals = interrupt_signals();
  int signal = 0;
  sigwait(&signals, &signal);
  if (stop.stop_requested()) {
    return;
  }
  interrupted_ = true;
  acknowledge_();
  sigwait(&signals, &signal);
  if (stop.stop_requested()) {
    return;
  }
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(signal);
}

void acknowledge_interrupt(const Session& session) {
  if (session.common.quiet) {
    return;
  }
  // In one piece, on a line of its own: the progress may stand on this one.
  const std::string begin = session.environment.stderr_is_terminal ? "\n" : "";
  session.err << begin +
                     "swr-tune: interrupted; ending after what is in hand, a second Ctrl-C ends "
                     "at once\n"
              << std::flush;
}

}  // namespace swr::cli
