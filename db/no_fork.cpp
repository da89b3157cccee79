// SPDX-License-Identifier: MIT
#include "db/no_fork.h"

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace swr {
namespace {

std::mutex gate;  // Of those that begin, so that they cannot keep fork() waiting by turns.
std::atomic<int> living = 0;

void wait_for_all() {
  gate.lock();
  for (int now = living; now != 0; now = living) {
    living.wait(now);
  }
}

void go_on() { gate.unlock(); }

}  // namespace

NoFork::NoFork() {
  [[maybe_unused]] static const int once = pthread_atfork(wait_for_all, go_on, go_on);
  const std::scoped_lock lock(gate);
  ++living;
}

NoFork::~NoFork() {
  --living;
  living.notify_all();
}

}  // namespace swr
