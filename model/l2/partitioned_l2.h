// SPDX-License-Identifier: MIT
// An L2 of one or more partitions. Every sector has a home in one of them; an SM reads through its
// own, which keeps a copy of what is at home elsewhere. Memory is asked for what its home has lost,
// not for a lost copy. So data that all SMs read occupies every partition, and data that the SMs
// of one partition read occupies that partition and the homes. What is written occupies every
// partition (counted on an H200: experiments/l2_model).
#pragma once

#include "model/l2/lru_cache.h"
#include "model/l2/set_associative_cache.h"

#include <vector>

namespace swr {

/// Cache: LruCache or SetAssociativeCache.
template <typename Cache>
class PartitionedL2 {
 public:
  /// Each partition begins as `empty`, which knows 2 * `pairs` objects. Pairs of a K and its V tile
  /// have ids from 0 to `pairs` - 1.
  PartitionedL2(const Cache& empty, int partitions, int pairs);

  /// An SM of `partition` reads a pair of `sectors`, an even number: those fetched from memory.
  int touch(int pair, int sectors, int partition);
  /// It reads a tile that nobody reads again.
  void read_once(int sectors, int partition);
  /// It writes a tile.
  void write_once(int sectors);

  /// Sectors fetched or written for the first time: no cache avoids these.
  long long compulsory_misses() const { return compulsory_misses_; }
  /// Sectors fetched again after eviction.
  long long excess_misses() const { return excess_misses_; }
  /// Sectors of all touches of pairs.
  long long touched_sectors() const { return touched_sectors_; }

 private:
  int home_sectors(int sectors, int partition) const;
  void divide(int pair_sectors);
  int touch_home(int pair, int partition);

  int pairs_;
  long long compulsory_misses_ = 0;
  long long excess_misses_ = 0;
  long long touched_sectors_ = 0;
  std::vector<Cache> partitions_;  ///< Objects: the homes of all pairs, then the copies.
  std::vector<char> seen_;         ///< Per partition and pair: fetched before.
  int divided_sectors_ = 0;        ///< Sectors of the pair of which the next holds the shares.
  std::vector<int> pair_homes_;    ///< Per partition.
};

extern template class PartitionedL2<LruCache>;
extern template class PartitionedL2<SetAssociativeCache>;

}  // namespace swr
