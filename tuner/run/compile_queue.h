// SPDX-License-Identifier: MIT
// Compiles variants on several threads ahead of the one who evaluates them: first what is wanted,
// in that order, then what will probably be wanted, a bounded number of each.
#pragma once

#include <swr/kernel.h>
#include <swr/variant.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

namespace swr {

/// Threads to start: as many as asked for, or for 0 one per hardware thread.
int thread_count(int asked);

class CompileQueue {
 public:
  using Compile = std::function<CompiledKernel(const Variant&)>;

  /// Starts `threads` (at least 1) threads; `compile` is called from all of them at once.
  CompileQueue(int threads, Compile compile);
  /// Waits for the compilations in hand; those not begun are dropped.
  ~CompileQueue() = default;
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;
  CompileQueue(CompileQueue&&) = delete;
  CompileQueue& operator=(CompileQueue&&) = delete;

  /// Appends variants that will be taken, in this order.
  void want(std::span<const Variant> variants);
  /// Forgets what is wanted and was not taken.
  void drop_wanted();
  /// Replaces what threads without other work compile: variants that may be wanted.
  void expect(std::vector<Variant> variants);

  /// Waits for a wanted variant's kernel. One thread may call it.
  /// Throws: whatever `compile` threw for that variant.
  /// Requires: the variant is the first wanted one that was not taken.
  CompiledKernel take(const Variant& variant);

 private:
  using Task = std::packaged_task<CompiledKernel()>;

  void work(const std::stop_token& stop);
  /// A task to do now; empty when there is none or enough are ahead. Requires: mutex_ is held.
  std::optional<Task> begin_next();
  std::optional<Task> begin_first_of(std::deque<Variant>& waiting);

  Compile compile_;
  std::size_t look_ahead_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::deque<Variant> wanted_;    ///< Not looked at by a thread.
  std::deque<Variant> expected_;  ///< Likewise.
  std::map<Variant, std::future<CompiledKernel>> begun_;
  std::size_t ahead_ = 0;         ///< Of wanted, those looked at and not taken.
  std::size_t on_suspicion_ = 0;  ///< Begun because they were expected.
  /// Last, so that the threads end before what they use.
  std::vector<std::jthread> threads_;
};

}  // namespace swr
