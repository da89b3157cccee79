// SPDX-License-Identifier: MIT
#include "tuner/model/partitioned_l2.h"

namespace swr {

PartitionedL2::PartitionedL2(long long partition_sectors, int partitions, int pairs)
    : pairs_(pairs),
      partitions_(static_cast<std::size_t>(partitions), LruCache(partition_sectors, 2 * pairs)),
      seen_(static_cast<std::size_t>(partitions) * static_cast<std::size_t>(pairs), 0),
      pair_homes_(static_cast<std::size_t>(partitions), 0) {}

/// Sectors of a tile that are at home in the partition.
int PartitionedL2::home_sectors(int sectors, int partition) const {
  const int partitions = static_cast<int>(partitions_.size());
  return sectors / partitions + (partition < sectors % partitions ? 1 : 0);
}

/// Nearly all pairs are of one size, so their shares are kept.
void PartitionedL2::divide(int pair_sectors) {
  divided_sectors_ = pair_sectors;
  for (std::size_t i = 0; i < pair_homes_.size(); ++i) {
    pair_homes_[i] = 2 * home_sectors(pair_sectors / 2, static_cast<int>(i));  // K and V tile.
  }
}

int PartitionedL2::touch_home(int pair, int partition) {
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

int PartitionedL2::touch(int pair, int sectors, int partition) {
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

void PartitionedL2::read_once(int sectors, int partition) {
  compulsory_misses_ += sectors;
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    partitions_[static_cast<std::size_t>(i)].touch_once(i == partition ? sectors
                                                                       : home_sectors(sectors, i));
  }
}

void PartitionedL2::write_once(int sectors) {
  compulsory_misses_ += sectors;
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    partitions_[static_cast<std::size_t>(i)].touch_once(home_sectors(sectors, i));
  }
}

}  // namespace swr
