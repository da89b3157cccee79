// SPDX-License-Identifier: MIT
// Mattson's stack algorithm: one pass over the touches gives the misses of an LRU cache of every
// size. An object's reuse distance is the sectors of everything touched since its last use, itself
// included; a cache hits when it holds at least that much.
//
// Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM
// Systems Journal 9(2), 1970; with a Fenwick tree over touch times for the sums.
#pragma once

#include <cstddef>
#include <vector>

namespace swr {

/// Misses of an LRU cache as a function of its capacity.
class MissCurve {
 public:
  explicit MissCurve(int resolution_sectors) : resolution_sectors_(resolution_sectors) {}

  void add_reuse(long long distance_sectors, int sectors);
  void add_first_touch(int sectors) { compulsory_misses_ += sectors; }

  long long compulsory_misses() const { return compulsory_misses_; }
  /// Sectors fetched again with this capacity. Exact when it is a multiple of the resolution.
  long long excess_misses(long long capacity_sectors) const;
  /// The smallest capacity without excess misses, rounded up to the resolution.
  long long capacity_without_excess() const;

 private:
  int resolution_sectors_;
  long long compulsory_misses_ = 0;
  /// Sectors reused at distances in (i - 1, i] times the resolution.
  std::vector<long long> reused_sectors_;
};

/// Measures reuse distances. Logarithmic time per touch; memory follows the distinct objects.
class ReuseDistance {
 public:
  /// Objects have ids from 0 to `objects` - 1.
  ReuseDistance(int objects, int resolution_sectors);

  /// True when it was touched before: a cache of unlimited size would hit.
  bool touch(int object, int sectors);
  /// An object that is never used again.
  void touch_once(int sectors);

  const MissCurve& curve() const { return curve_; }

 private:
  struct Entry {
    int object = -1;
    int sectors = 0;  ///< 0 when a later entry replaced this one.
  };

  void append(Entry entry);
  void compact();
  void add_at(std::size_t time, long long sectors);
  long long sum_through(std::size_t time) const;

  MissCurve curve_;
  long long live_sectors_ = 0;
  std::size_t live_entries_ = 0;
  std::vector<Entry> log_;
  std::vector<long long> fenwick_;   ///< Partial sums over log_; its size is the log's limit.
  std::vector<long long> last_use_;  ///< Index into log_, or -1.
};

}  // namespace swr
