// SPDX-License-Identifier: MIT
#include "tuner/compile_queue.h"

#include <algorithm>
#include <utility>

namespace swr {

CompileQueue::CompileQueue(std::vector<Variant> variants, int threads, Compile compile) {
  const auto thread_count = static_cast<std::size_t>(std::max(1, threads));
  // Twice the threads keeps every thread busy while the consumer evaluates one variant, and holds
  // only a handful of cubins in memory.
  look_ahead_ = 2 * thread_count;
  tasks_.reserve(variants.size());
  for (const Variant& variant : variants) {
    kernels_.push_back(
        tasks_.emplace_back([compile, variant] { return compile(variant); }).get_future());
  }
  for (std::size_t i = 0; i < std::min(thread_count, variants.size()); ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

CompiledKernel CompileQueue::next() {
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    index = taken_++;
  }
  room_.notify_all();
  return kernels_.at(index).get();
}

void CompileQueue::work(const std::stop_token& stop) {
  for (;;) {
    std::size_t index = 0;
    {
      std::unique_lock lock(mutex_);
      const bool ready = room_.wait(
          lock, stop, [this] { return begun_ == tasks_.size() || begun_ < taken_ + look_ahead_; });
      if (!ready || stop.stop_requested() || begun_ == tasks_.size()) {
        return;
      }
      index = begun_++;
    }
    tasks_[index]();
  }
}

}  // namespace swr
