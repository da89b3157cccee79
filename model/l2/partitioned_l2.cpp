// SPDX-License-Identifier: MIT
#include "model/l2/partitioned_l2.h"

namespace swr {

template <typename Cache>
PartitionedL2<Cache>::PartitionedL2(const Cache& empty, int partitions, int pairs)
    : pairs_(pairs),
      partitions_(static_cast<std::size_t>(partitions), empty),
      seen_(static_cast<std::size_t>(partitions) * static_cast<std::size_t>(pairs), 0),
      pair_homes_(static_cast<std::size_t>(partitions), 0) {}

/// Sectors of a tile that are at home in the partition.
template <typename Cache>
int PartitionedL2<Cache>::home_sectors(int sectors, int partition) const {
  const int partitions = static_cast<int>(partitions_.size());
  return sectors / partitions + (partition < sectors % partitions ? 1 : 0);
}

/// Nearly all pairs are of one size, so their shares are kept.
template <typename Cache>
void PartitionedL2<Cache>::divide(int pair_sectors) {
  divided_sectors_ = pair_sectors;
  for (std::size_t i = 0; i < pair_homes_.size(); ++i) {
    pair_homes_[i] = 2 * home_sectors(pair_sectors / 2, static_cast<int>(i));  // K and V tile.
  }
}

template <typename Cache>
int PartitionedL2<Cache>::touch_home(int pair, int partition) {
  const auto index = static_cast<std::size_t>(partition);
  const int home = pair_homes_[index];
  if (home == 0 || partitions_[index].touch(pair, home)) {
    return 0;
  }
  char& seen = seen_[index * static_cast<std::size_t>(pairs_) + static_cast<std::size_t>(pair)];
  (seen != 0 ? excess_misses_ : compulsory_misses_) += home;
  seen = 1;
  return home;
}

template <typename Cache>
int PartitionedL2<Cache>::touch(int pair, int sectors, int partition) {
  if (sectors != divided_sectors_) {
    divide(sectors);
  }
  touched_sectors_ += sectors;
  const auto index = static_cast<std::size_t>(partition);
  int fetched = touch_home(pair, partition);
  const int copied = sectors - pair_homes_[index];
  if (copied == 0 || partitions_[index].touch(pairs_ + pair, copied)) {
    return fetched;
  }
  for (int other = 0; other < static_cast<int>(partitions_.size()); ++other) {
    fetched += other == partition ? 0 : touch_home(pair, other);
  }
  return fetched;
}

template <typename Cache>
void PartitionedL2<Cache>::read_once(int sectors, int partition) {
  compulsory_misses_ += sectors;
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    partitions_[static_cast<std::size_t>(i)].touch_once(i == partition ? sectors
                                                                       : home_sectors(sectors, i));
  }
}

template <typename Cache>
void PartitionedL2<Cache>::write_once(int sectors) {
  compulsory_misses_ += sectors;
  for (Cache& partition : partitions_) {
    partition.touch_once(sectors);
  }
}

template class PartitionedL2<LruCache>;
template class PartitionedL2<SetAssociativeCache>;

}  // namespace swr
