// SPDX-License-Identifier: MIT
#include "model/l2/partitioned_l2.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(PartitionedL2, WhatBothPartitionsReadIsFetchedOnceAndHeldTwice) {
  PartitionedL2 l2(LruCache(40, 2 * 3), 2, 3);
  EXPECT_EQ(l2.touch(0, 20, 0), 20);
  EXPECT_EQ(l2.touch(0, 20, 1), 0);
  l2.touch(1, 20, 0);
  l2.touch(1, 20, 1);
  EXPECT_EQ(l2.touch(0, 20, 0), 0);  // Both pairs fill both partitions.
  l2.touch(2, 20, 0);
  l2.touch(2, 20, 1);
  EXPECT_GT(l2.touch(1, 20, 0), 0);
  EXPECT_EQ(l2.compulsory_misses(), 60);
}

TEST(PartitionedL2, WhatOnePartitionReadsLeavesTheOtherItsHomesOnly) {
  // Two pairs read by the SMs of one partition and two by those of the other: each holds its own
  // two and the homes of the other's, which age behind and may be lost without harm.
  PartitionedL2 l2(LruCache(60, 2 * 4), 2, 4);
  for (int round = 0; round < 10; ++round) {
    for (const int partition : {0, 1}) {
      l2.touch(2 * partition, 20, partition);
      l2.touch(2 * partition + 1, 20, partition);
    }
  }
  EXPECT_EQ(l2.compulsory_misses(), 80);
  EXPECT_EQ(l2.excess_misses(), 0);
}

TEST(PartitionedL2, ALostCopyIsFetchedFromItsHome) {
  PartitionedL2 l2(LruCache(40, 2 * 3), 2, 3);
  l2.touch(0, 20, 0);
  for (int pair = 1; pair < 3; ++pair) {
    l2.touch(pair, 20, 0);  // The first partition loses pair 0; the second keeps its home.
  }
  EXPECT_EQ(l2.touch(0, 20, 0), 10);
  EXPECT_EQ(l2.excess_misses(), 10);
}

TEST(PartitionedL2, WithOnePartitionNothingIsCopied) {
  PartitionedL2 l2(LruCache(40, 2 * 2), 1, 2);
  l2.touch(0, 20, 0);
  l2.touch(1, 20, 0);
  EXPECT_EQ(l2.touch(0, 20, 0), 0);
  l2.read_once(10, 0);
  l2.write_once(10);
  EXPECT_EQ(l2.touch(1, 20, 0), 20);
  EXPECT_EQ(l2.compulsory_misses(), 60);
  EXPECT_EQ(l2.excess_misses(), 20);
  EXPECT_EQ(l2.touched_sectors(), 80);
}

}  // namespace
}  // namespace swr
