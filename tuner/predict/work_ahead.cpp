// SPDX-License-Identifier: MIT
#include "tuner/predict/work_ahead.h"

#include <utility>

namespace swr {

WorkAhead::WorkAhead(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void WorkAhead::replace(std::deque<Task> tasks) {
  const std::lock_guard lock(mutex_);
  tasks_ = std::move(tasks);
  changed_.notify_all();
}

void WorkAhead::work(const std::stop_token& stop) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !tasks_.empty(); });
      if (stop.stop_requested()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace swr
