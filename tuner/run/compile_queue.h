// SPDX-License-Identifier: MIT
// Compiles variants on several threads ahead of the one who evaluates them: first what is wanted,
// in that order, then what will probably be wanted, a bounded number of each.
#pragma once

#include <swr/kernel.h>
#include <swr/variant.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  /// Waits for the compilations in hand, unless they were abandoned; those not begun are dropped.
  ~CompileQueue();
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
  /// The same; empty when `stop_requested`, which is asked about twenty times a second, says so
  /// before the kernel is there. Nothing can be taken after that.
  std::optional<CompiledKernel> take(const Variant& variant,
                                     const std::function<bool()>& stop_requested);

  /// Whether take() would not wait.
  bool is_ready(const Variant& variant);

  /// Begins no further compilation. Nothing can be taken after that.
  void stop();

  /// Leaves the compilations in hand to their threads, which nobody waits for: a compilation cannot
  /// be broken off. What `compile` uses has to live as long as the process does.
  void abandon();

 private:
  /// What the threads share; it lives as long as the last of them.
  struct State;

  std::shared_ptr<State> state_;
  std::vector<std::jthread> threads_;
};

}  // namespace swr
