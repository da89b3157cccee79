// SPDX-License-Identifier: MIT
#include "tuner/distribute/hand_out.h"

namespace swr {

std::optional<std::size_t> HandOut::take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_closed_) {
      return std::nullopt;
    }
    if (const auto piece = next_piece()) {
      ++in_hand_;
      return piece;
    }
    if (in_hand_ == 0) {
      return std::nullopt;
    }
    changed_.wait(lock);
  }
}

void HandOut::done() {
  const std::lock_guard lock(mutex_);
  --in_hand_;
  changed_.notify_all();
}

bool HandOut::give_back(std::size_t piece) {
  const std::lock_guard lock(mutex_);
  --in_hand_;
  const bool is_first_time = ever_returned_.insert(piece).second;
  if (is_first_time) {
    returned_.push_back(piece);
  } else {
    is_closed_ = true;  // At once, before a third thread takes it.
  }
  changed_.notify_all();
  return is_first_time;
}

void HandOut::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::optional<std::size_t> HandOut::next_piece() {
  if (returned_.empty()) {
    return source_();
  }
  const std::size_t piece = returned_.front();
  returned_.pop_front();
  return piece;
}

}  // namespace swr
