// SPDX-License-Identifier: MIT
#include "tuner/measure/kernel_timer.h"

#include <utility>

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
  repeat(warmup_launches, launch_);
  if (before_.flush_l2) {
    return;
  }
  launches_ = launches_per_sample(sample(1).front());
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
  const auto wanted = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < wanted; ++i) {
    for (const Enqueue& enqueue : {before_.flush_l2, before_.shake_placement}) {
      if (enqueue) {
        enqueue();
      }
    }
    starts_[i].record(stream_);
    enqueue_sample();
    stops_[i].record(stream_);
  }
  std::vector<double> samples_us;
  for (std::size_t i = 0; i < wanted; ++i) {
    samples_us.push_back(stops_[i].elapsed_us_since(starts_[i]) / launches_);
  }
  return samples_us;
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

}  // namespace swr
