// SPDX-License-Identifier: MIT
// Compiles a list of variants on several threads, a bounded number ahead of the consumer, and hands
// the kernels out in the order of the list whatever order they finish in.
#pragma once

#include <swr/kernel.h>
#include <swr/variant.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace swr {

class CompileQueue {
 public:
  using Compile = std::function<CompiledKernel(const Variant&)>;

  /// Starts `threads` (at least 1) threads; `compile` is called from all of them at once.
  CompileQueue(std::vector<Variant> variants, int threads, Compile compile);
  /// Waits for the compilations in hand; those not begun are dropped.
  ~CompileQueue() = default;
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;
  CompileQueue(CompileQueue&&) = delete;
  CompileQueue& operator=(CompileQueue&&) = delete;

  /// Waits for the kernel of the next variant of the list. One thread may call it.
  /// Throws: whatever `compile` threw for that variant.
  /// Requires: fewer calls so far than variants.
  CompiledKernel next();

 private:
  void work(const std::stop_token& stop);

  std::vector<std::packaged_task<CompiledKernel()>> tasks_;
  std::vector<std::future<CompiledKernel>> kernels_;
  std::size_t look_ahead_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::size_t begun_ = 0;  ///< Tasks that a thread took; guarded by mutex_.
  std::size_t taken_ = 0;  ///< Kernels handed out; guarded by mutex_.
  /// Last, so that the threads end before what they use.
  std::vector<std::jthread> threads_;
};

}  // namespace swr
