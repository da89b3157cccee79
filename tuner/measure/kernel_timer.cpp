// SPDX-License-Identifier: MIT
#include "tuner/measure/kernel_timer.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

void repeat(int times, const KernelTimer::Enqueue& enqueue) {
  for (int i = 0; i < times; ++i) {
    enqueue();
  }
}

}  // namespace

KernelTimer::KernelTimer(const Stream& stream, Enqueue launch, Before before, int warmup_launches)
    : stream_(stream), launch_(std::move(launch)), before_(std::move(before)) {
  if (before_.flush_l2) {
    repeat(warmup_launches, launch_);
    return;
  }
  launch_();
  enqueue_timed(0);
  launch_us_ = timed_us(0);
  if (launch_us_ >= kWarmUs) {
    return;
  }
  repeat(warmup_launches - 2, launch_);
  launch_us_ = sample(1).front();
  launches_ = launches_per_sample(launch_us_);
  if (is_replayed(launches_)) {
    try {
      graph_.emplace(stream_, [this] { repeat(launches_, launch_); });
      graph_->launch(stream_);  // The first replay takes longer: 1 to 14 % on an H200.
    } catch (const DriverError&) {
      // Plain launches serve too; a fault of the kernel itself shows there again.
      graph_.reset();
    }
  }
}

std::vector<double> KernelTimer::sample(int count) {
  if (!before_.flush_l2) {
    occupy_gpu();
  }
  for (int i = 0; i < count; ++i) {
    enqueue_timed(i);
  }
  std::vector<double> samples_us;
  for (int i = 0; i < count; ++i) {
    samples_us.push_back(timed_us(i));
  }
  return samples_us;
}

void KernelTimer::enqueue_timed(int place) {
  for (const Enqueue& enqueue : {before_.flush_l2, before_.shake_placement}) {
    if (enqueue) {
      enqueue();
    }
  }
  starts_.at(static_cast<std::size_t>(place)).record(stream_);
  enqueue_sample();
  stops_.at(static_cast<std::size_t>(place)).record(stream_);
}

double KernelTimer::timed_us(int place) const {
  const auto i = static_cast<std::size_t>(place);
  return stops_.at(i).elapsed_us_since(starts_.at(i)) / launches_;
}

/// With a whole sample where launches are short: a host that others keep busy may take long to
/// enqueue what is timed, and a GPU that waits for it would have the wait in the sample.
void KernelTimer::occupy_gpu() const {
  if (graph_) {
    enqueue_sample();
  } else {
    launch_();
  }
}

void KernelTimer::enqueue_sample() const {
  if (graph_) {
    graph_->launch(stream_);
  } else {
    repeat(launches_, launch_);
  }
}

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
