// SPDX-License-Identifier: MIT
#include "model/l2/reuse_distance.h"

#include <algorithm>

namespace swr {
namespace {

constexpr std::size_t kSmallestLog = 1024;

}  // namespace

void MissCurve::add_reuse(long long distance_sectors, int sectors) {
  const auto bucket =
      static_cast<std::size_t>((distance_sectors + resolution_sectors_ - 1) / resolution_sectors_);
  if (bucket >= reused_sectors_.size()) {
    reused_sectors_.resize(bucket + 1);
  }
  reused_sectors_[bucket] += sectors;
}

long long MissCurve::excess_misses(long long capacity_sectors) const {
  const auto held = std::min(static_cast<std::size_t>(capacity_sectors / resolution_sectors_) + 1,
                             reused_sectors_.size());
  long long misses = 0;
  for (std::size_t bucket = held; bucket < reused_sectors_.size(); ++bucket) {
    misses += reused_sectors_[bucket];
  }
  return misses;
}

long long MissCurve::capacity_without_excess() const {
  const auto buckets = static_cast<long long>(reused_sectors_.size());
  return buckets == 0 ? 0 : (buckets - 1) * resolution_sectors_;
}

ReuseDistance::ReuseDistance(int objects, int resolution_sectors)
    : curve_(resolution_sectors), last_use_(static_cast<std::size_t>(objects), -1) {
  fenwick_.assign(kSmallestLog, 0);
}

bool ReuseDistance::touch(int object, int sectors) {
  const long long last = last_use_[static_cast<std::size_t>(object)];
  if (last < 0) {
    curve_.add_first_touch(sectors);
  } else {
    const auto time = static_cast<std::size_t>(last);
    curve_.add_reuse(live_sectors_ - sum_through(time) + sectors, sectors);
    log_[time].sectors = 0;
    add_at(time, -sectors);
    live_sectors_ -= sectors;
    --live_entries_;
  }
  append({object, sectors});
  return last >= 0;
}

void ReuseDistance::touch_once(int sectors) {
  curve_.add_first_touch(sectors);
  append({-1, sectors});
}

void ReuseDistance::append(Entry entry) {
  if (log_.size() == fenwick_.size()) {
    compact();
  }
  if (entry.object >= 0) {
    last_use_[static_cast<std::size_t>(entry.object)] = static_cast<long long>(log_.size());
  }
  log_.push_back(entry);
  add_at(log_.size() - 1, entry.sectors);
  live_sectors_ += entry.sectors;
  ++live_entries_;
}

/// Drops replaced entries and rebuilds the sums for a log twice as long as what is live.
void ReuseDistance::compact() {
  std::size_t kept = 0;
  for (const Entry entry : log_) {
    if (entry.sectors == 0) {
      continue;
    }
    if (entry.object >= 0) {
      last_use_[static_cast<std::size_t>(entry.object)] = static_cast<long long>(kept);
    }
    log_[kept++] = entry;
  }
  log_.resize(kept);
  fenwick_.assign(std::max(kSmallestLog, 2 * kept), 0);
  for (std::size_t time = 0; time < kept; ++time) {
    add_at(time, log_[time].sectors);
  }
}

void ReuseDistance::add_at(std::size_t time, long long sectors) {
  for (std::size_t i = time + 1; i <= fenwick_.size(); i += i & (~i + 1)) {
    fenwick_[i - 1] += sectors;
  }
}

long long ReuseDistance::sum_through(std::size_t time) const {
  long long sum = 0;
  for (std::size_t i = time + 1; i > 0; i &= i - 1) {
    sum += fenwick_[i - 1];
  }
  return sum;
}

}  // namespace swr
