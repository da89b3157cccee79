// SPDX-License-Identifier: MIT
#include "tuner/run/compile_queue.h"

#include <algorithm>
#include <utility>

namespace swr {

int thread_count(int asked) {
  const int hardware = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : std::max(1, hardware);
}

CompileQueue::CompileQueue(int threads, Compile compile) : compile_(std::move(compile)) {
  const auto thread_count = static_cast<std::size_t>(std::max(1, threads));
  // Twice the threads keeps every thread busy while the consumer evaluates one variant, and holds
  // only a handful of cubins in memory.
  look_ahead_ = 2 * thread_count;
  for (std::size_t i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void CompileQueue::want(std::span<const Variant> variants) {
  const std::lock_guard lock(mutex_);
  wanted_.insert(wanted_.end(), variants.begin(), variants.end());
  changed_.notify_all();
}

void CompileQueue::drop_wanted() {
  const std::lock_guard lock(mutex_);
  wanted_.clear();
  ahead_ = 0;
}

void CompileQueue::expect(std::vector<Variant> variants) {
  const std::lock_guard lock(mutex_);
  expected_.assign(variants.begin(), variants.end());
  on_suspicion_ = 0;
  changed_.notify_all();
}

CompiledKernel CompileQueue::take(const Variant& variant) {
  std::future<CompiledKernel> kernel;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.contains(variant); });
    // Begun on suspicion, and no thread has come to it since it is wanted.
    const auto waiting = std::ranges::find(wanted_, variant);
    if (waiting != wanted_.end()) {
      wanted_.erase(waiting);
    } else {
      --ahead_;
    }
    kernel = std::move(begun_.extract(variant).mapped());
    changed_.notify_all();
  }
  return kernel.get();
}

std::optional<CompileQueue::Task> CompileQueue::begin_first_of(std::deque<Variant>& waiting) {
  const Variant variant = waiting.front();
  waiting.pop_front();
  if (begun_.contains(variant)) {
    return std::nullopt;
  }
  Task task([this, variant] { return compile_(variant); });
  begun_.emplace(variant, task.get_future());
  changed_.notify_all();
  return task;
}

std::optional<CompileQueue::Task> CompileQueue::begin_next() {
  std::optional<Task> task;
  while (!task && !wanted_.empty() && ahead_ < look_ahead_) {
    ++ahead_;
    task = begin_first_of(wanted_);
  }
  while (!task && wanted_.empty() && !expected_.empty() && on_suspicion_ < look_ahead_) {
    task = begin_first_of(expected_);
    on_suspicion_ += task ? 1 : 0;
  }
  return task;
}

void CompileQueue::work(const std::stop_token& stop) {
  for (;;) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return stop.stop_requested() || (task = begin_next()); });
    }
    if (stop.stop_requested() || !task) {
      return;
    }
    (*task)();
  }
}

}  // namespace swr
