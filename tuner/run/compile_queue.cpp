// SPDX-License-Identifier: MIT
#include "tuner/run/compile_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <stop_token>
#include <utility>

namespace swr {

int thread_count(int asked) {
  const int hardware = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : std::max(1, hardware);
}

struct CompileQueue::State {
  using Task = std::packaged_task<CompiledKernel()>;

  void work(const std::stop_token& stop);
  /// A task to do now; empty when there is none or enough are ahead. Requires: mutex is held.
  std::optional<Task> begin_next();
  std::optional<Task> begin_first_of(std::deque<Variant>& waiting);
  /// What a begun compilation gives; nobody else gets it. Requires: mutex is held.
  std::future<CompiledKernel> hand_out(const Variant& variant);

  Compile compile;
  std::size_t look_ahead = 0;
  std::size_t most_on_suspicion = 0;
  std::mutex mutex;
  std::condition_variable_any changed;
  // Guarded by mutex.
  std::deque<Variant> wanted;    ///< Not looked at by a thread.
  std::deque<Variant> expected;  ///< Likewise.
  std::map<Variant, std::future<CompiledKernel>> begun;
  std::size_t ahead = 0;         ///< Of wanted, those looked at and not taken.
  std::size_t on_suspicion = 0;  ///< Begun because they were expected.
};

CompileQueue::CompileQueue(int threads, Compile compile) : state_(std::make_shared<State>()) {
  const auto thread_count = static_cast<std::size_t>(std::max(1, threads));
  state_->compile = std::move(compile);
  // So many that threads stay busy while variants of kernels that compile fast are evaluated, and
  // no more than some hundred MiB of cubins wait.
  state_->look_ahead = 16 * thread_count;
  state_->most_on_suspicion = 2 * thread_count;
  for (std::size_t i = 0; i < thread_count; ++i) {
    threads_.emplace_back([state = state_](const std::stop_token& stop) { state->work(stop); });
  }
}

CompileQueue::~CompileQueue() = default;

void CompileQueue::want(std::span<const Variant> variants) {
  const std::lock_guard lock(state_->mutex);
  state_->wanted.insert(state_->wanted.end(), variants.begin(), variants.end());
  state_->changed.notify_all();
}

void CompileQueue::drop_wanted() {
  const std::lock_guard lock(state_->mutex);
  state_->wanted.clear();
  state_->ahead = 0;
}

void CompileQueue::expect(std::vector<Variant> variants) {
  const std::lock_guard lock(state_->mutex);
  state_->expected.assign(variants.begin(), variants.end());
  state_->on_suspicion = 0;
  state_->changed.notify_all();
}

CompiledKernel CompileQueue::take(const Variant& variant) {
  return *take(variant, [] { return false; });
}

std::optional<CompiledKernel> CompileQueue::take(const Variant& variant,
                                                 const std::function<bool()>& stop_requested) {
  constexpr std::chrono::milliseconds kAskEvery{50};
  std::future<CompiledKernel> kernel;
  {
    std::unique_lock lock(state_->mutex);
    while (!state_->changed.wait_for(lock, kAskEvery,
                                     [&] { return state_->begun.contains(variant); })) {
      if (stop_requested()) {
        return std::nullopt;
      }
    }
    kernel = state_->hand_out(variant);
  }
  while (kernel.wait_for(kAskEvery) != std::future_status::ready) {
    if (stop_requested()) {
      return std::nullopt;
    }
  }
  return kernel.get();
}

bool CompileQueue::is_ready(const Variant& variant) {
  const std::lock_guard lock(state_->mutex);
  const auto begun = state_->begun.find(variant);
  return begun != state_->begun.end() &&
         begun->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void CompileQueue::stop() {
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
}

void CompileQueue::abandon() {
  for (std::jthread& thread : threads_) {
    thread.request_stop();
    thread.detach();
  }
  threads_.clear();
}

std::future<CompiledKernel> CompileQueue::State::hand_out(const Variant& variant) {
  // Begun on suspicion, and no thread has come to it since it is wanted.
  const auto waiting = std::ranges::find(wanted, variant);
  if (waiting != wanted.end()) {
    wanted.erase(waiting);
  } else {
    --ahead;
  }
  std::future<CompiledKernel> kernel = std::move(begun.extract(variant).mapped());
  changed.notify_all();
  return kernel;
}

std::optional<CompileQueue::State::Task> CompileQueue::State::begin_first_of(
    std::deque<Variant>& waiting) {
  const Variant variant = waiting.front();
  waiting.pop_front();
  if (begun.contains(variant)) {
    return std::nullopt;
  }
  Task task([this, variant] { return compile(variant); });
  begun.emplace(variant, task.get_future());
  changed.notify_all();
  return task;
}

std::optional<CompileQueue::State::Task> CompileQueue::State::begin_next() {
  std::optional<Task> task;
  while (!task && !wanted.empty() && ahead < look_ahead) {
    ++ahead;
    task = begin_first_of(wanted);
  }
  while (!task && wanted.empty() && !expected.empty() && on_suspicion < most_on_suspicion) {
    task = begin_first_of(expected);
    on_suspicion += task ? 1 : 0;
  }
  return task;
}

void CompileQueue::State::work(const std::stop_token& stop) {
  for (;;) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, stop, [&] { return stop.stop_requested() || (task = begin_next()); });
    }
    if (stop.stop_requested() || !task) {
      return;
    }
    (*task)();
  }
}

}  // namespace swr
