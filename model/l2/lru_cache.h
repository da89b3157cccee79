// SPDX-License-Identifier: MIT
// A fully associative cache with least-recently-used replacement and a capacity in sectors, as a
// log of touches in time order: an object's entry moves to the end when it is touched, and the
// oldest entries fall off the front. Constant time per touch, no hashing.
#pragma once

#include <cstddef>
#include <vector>

namespace swr {

class LruCache {
 public:
  /// Objects have ids from 0 to `objects` - 1.
  LruCache(long long capacity_sectors, int objects);

  /// Uses an object of fixed size; larger than the cache, it always misses. True when it hits.
  bool touch(int object, int sectors);

  /// Uses an object that is never used again; it only pushes others out.
  void touch_once(int sectors);

  /// Sectors of first touches: no cache avoids these misses.
  long long compulsory_misses() const { return compulsory_misses_; }
  /// Sectors fetched again after eviction.
  long long excess_misses() const { return excess_misses_; }
  /// Sectors of all touches of objects that may be used again.
  long long touched_sectors() const { return touched_sectors_; }

 private:
  struct Entry {
    int object = -1;  ///< -1 for an object that is never used again.
    int sectors = 0;  ///< 0 when a later entry replaced this one.
  };

  void append(Entry entry);
  void compact();

  long long capacity_sectors_;
  long long resident_sectors_ = 0;
  long long compulsory_misses_ = 0;
  long long excess_misses_ = 0;
  long long touched_sectors_ = 0;
  std::size_t oldest_ = 0;
  std::size_t live_entries_ = 0;
  std::vector<Entry> log_;
  std::vector<long long> place_;  ///< Index into log_, or one of the two below.
  static constexpr long long kNeverSeen = -1;
  static constexpr long long kEvicted = -2;
};

}  // namespace swr
