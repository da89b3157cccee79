// SPDX-License-Identifier: MIT
// A queue in order of time for those that come nearly in that order: one that comes moves past the
// few that are due after it. For a heap every one that is taken costs branches that no processor
// foresees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace swr {

/// When one is free, and its index: of those free at once the first comes first.
using Free = std::pair<long long, std::size_t>;

class FreeQueue {
 public:
  bool empty() const { return next_ == queued_.size(); }
  /// Requires: not empty.
  const Free& front() const { return queued_[next_]; }

  /// Requires: not empty.
  Free take() { return queued_[next_++]; }

  void push(const Free& free) {
    drop_taken();
    queued_.push_back(free);
    std::size_t place = queued_.size() - 1;
    for (; place > next_ && free < queued_[place - 1]; --place) {
      queued_[place] = queued_[place - 1];
    }
    queued_[place] = free;
  }

  /// Empties the queue.
  void clear() {
    queued_.clear();
    next_ = 0;
  }

  /// Adds one of many in any order: sort() before the first is taken.
  void append(const Free& free) { queued_.push_back(free); }

  void sort() { std::ranges::sort(queued_); }

 private:
  /// Those taken are dropped many at a time.
  void drop_taken() {
    constexpr std::size_t kMany = 1 << 12;
    if (next_ >= kMany) {
      queued_.erase(queued_.begin(), queued_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
  }

  std::vector<Free> queued_;  ///< In order from next_ on.
  std::size_t next_ = 0;      ///< Those before it have been taken.
};

}  // namespace swr
