// SPDX-License-Identifier: MIT
#include "tuner/cli/interrupt.h"

#include <csignal>

namespace swr::cli {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int /*signal*/) { g_interrupted = 1; }

}  // namespace

void catch_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  // SA_RESETHAND restores the default, which ends the program, for the second signal.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace swr::cli
