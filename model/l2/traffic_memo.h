// SPDX-License-Identifier: MIT
// Remembers the walks of schedules through L2, each made once whoever asks for it.
#pragma once

#include "model/l2/l2_policy.h"

#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>

namespace swr {

/// Thread-safe. A second thread that wants a walk in progress waits for it.
template <typename Shape, typename Traffic>
class TrafficMemo {
 public:
  using Walk = Traffic (*)(const Shape&, const L2Policy&);

  TrafficMemo(Walk how, const L2Policy& l2_policy) : walk_(how), l2_policy_(l2_policy) {}

  Traffic traffic(const Shape& shape) {
    std::promise<Traffic> promise;
    const std::shared_future<Traffic> known = begun_walk(shape, promise);
    return known.valid() ? known.get() : walk(shape, promise);
  }

  /// Walks, unless another thread has begun with it: nobody waits. Empty while that one is at it.
  std::optional<Traffic> prepare(const Shape& shape) {
    std::promise<Traffic> promise;
    const std::shared_future<Traffic> known = begun_walk(shape, promise);
    if (!known.valid()) {
      return walk(shape, promise);
    }
    const bool is_done = known.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    return is_done ? std::optional(known.get()) : std::nullopt;
  }

 private:
  /// The walk that another thread has begun; none where it is now the caller's, with that promise.
  std::shared_future<Traffic> begun_walk(const Shape& shape, std::promise<Traffic>& promise) {
    const std::lock_guard lock(mutex_);
    const auto [entry, inserted] = walks_.try_emplace(shape);
    if (!inserted) {
      return entry->second;
    }
    entry->second = promise.get_future().share();
    return {};
  }

  /// Leaves the result, or what went wrong, for those who wait.
  Traffic walk(const Shape& shape, std::promise<Traffic>& promise) const {
    try {
      const Traffic result = walk_(shape, l2_policy_);
      promise.set_value(result);
      return result;
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  Walk walk_;
  L2Policy l2_policy_;
  std::mutex mutex_;
  std::map<Shape, std::shared_future<Traffic>> walks_;
};

}  // namespace swr
