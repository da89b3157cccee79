// SPDX-License-Identifier: MIT
#include "model/l2/lru_cache.h"

namespace swr {

LruCache::LruCache(long long capacity_sectors, int objects)
    : capacity_sectors_(capacity_sectors), place_(static_cast<std::size_t>(objects), kNeverSeen) {}

bool LruCache::touch(int object, int sectors) {
  const long long place = place_[static_cast<std::size_t>(object)];
  touched_sectors_ += sectors;
  if (place >= 0) {
    log_[static_cast<std::size_t>(place)].sectors = 0;
    resident_sectors_ -= sectors;
    --live_entries_;
  } else if (place == kNeverSeen) {
    compulsory_misses_ += sectors;
  } else {
    excess_misses_ += sectors;
  }
  append({object, sectors});
  return place >= 0;
}

void LruCache::touch_once(int sectors) {
  compulsory_misses_ += sectors;
  if (sectors > 0) {
    append({-1, sectors});
  }
}

void LruCache::append(Entry entry) {
  constexpr std::size_t kSlack = 1024;
  if (log_.size() > 2 * live_entries_ + kSlack) {
    compact();
  }
  if (entry.object >= 0) {
    place_[static_cast<std::size_t>(entry.object)] = static_cast<long long>(log_.size());
  }
  log_.push_back(entry);
  ++live_entries_;
  resident_sectors_ += entry.sectors;
  while (resident_sectors_ > capacity_sectors_) {
    const Entry& victim = log_[oldest_++];
    if (victim.sectors == 0) {
      continue;
    }
    resident_sectors_ -= victim.sectors;
    --live_entries_;
    if (victim.object >= 0) {
      place_[static_cast<std::size_t>(victim.object)] = kEvicted;
    }
  }
}

/// Drops replaced and evicted entries, so that the log stays as long as the cache's contents.
void LruCache::compact() {
  std::size_t kept = 0;
  for (std::size_t i = oldest_; i < log_.size(); ++i) {
    if (log_[i].sectors == 0) {
      continue;
    }
    if (log_[i].object >= 0) {
      place_[static_cast<std::size_t>(log_[i].object)] = static_cast<long long>(kept);
    }
    log_[kept++] = log_[i];
  }
  log_.resize(kept);
  oldest_ = 0;
}

}  // namespace swr
