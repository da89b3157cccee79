// SPDX-License-Identifier: MIT
#include "tuner/measure/sustained_launches.h"

#include "tuner/statistics/stopping_rule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace swr {
namespace {

/// Long against enqueueing, short against a step of the counter of energy.
constexpr double kBatchUs = 2e3;
/// In work or waiting: the GPU is never without.
constexpr std::size_t kMostWaiting = 4;

int launches_per_batch(double launch_us) {
  constexpr double kMostLaunches = 2000.0;
  return static_cast<int>(
      std::clamp(std::ceil(kBatchUs / std::max(launch_us, 1e-3)), 1.0, kMostLaunches));
}

}  // namespace

SustainedLaunches::SustainedLaunches(const Stream& stream, std::function<void()> launch,
                                     double launch_us)
    : stream_(stream),
      launch_(std::move(launch)),
      launches_per_batch_(launches_per_batch(launch_us)) {
  if (is_replayed(launches_per_batch_)) {
    launch_();  // What a first launch sets up is no part of a graph.
    stream_.synchronize();
    try {
      graph_.emplace(stream_, [this] {
        for (int i = 0; i < launches_per_batch_; ++i) {
          launch_();
        }
      });
    } catch (const DriverError&) {
      graph_.reset();  // Plain launches serve too.
    }
  }
}

void SustainedLaunches::keep_busy() {
  while (!waiting_.empty() && waiting_.front()->is_over()) {
    waiting_.pop_front();
  }
  while (waiting_.size() < kMostWaiting) {
    enqueue_batch();
  }
}

double SustainedLaunches::finish_us() {
  Event last;
  last.record(stream_);
  const double elapsed_us = last.elapsed_us_since(*first_);
  waiting_.clear();
  return elapsed_us /
         (static_cast<double>(std::max(1LL, batches_after_first_)) * launches_per_batch_);
}

void SustainedLaunches::enqueue_batch() {
  if (graph_) {
    graph_->launch(stream_);
  } else {
    for (int i = 0; i < launches_per_batch_; ++i) {
      launch_();
    }
  }
  auto end = std::make_unique<Event>();
  end->record(stream_);
  ++batches_after_first_;
  waiting_.push_back(std::move(end));
  if (first_ == nullptr) {
    first_ = std::make_unique<Event>();
    first_->record(stream_);
    batches_after_first_ = 0;
  }
}

}  // namespace swr
