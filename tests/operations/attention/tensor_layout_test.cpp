// SPDX-License-Identifier: MIT
#include "operations/attention/buffers.h"

#include <gtest/gtest.h>

#include <numeric>

namespace swr {
namespace {

constexpr TensorShape kShape{.batch = 3, .heads = 4, .seq = 5, .head_dim = 32};

TEST(TensorLayout, IsDenseAtFullAlignment) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bhsd);
  EXPECT_EQ(layout.strides.seq, 32);
  EXPECT_EQ(layout.strides.head, 5 * 32);
  EXPECT_EQ(layout.strides.batch, 4 * 5 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, InterleavesHeadsInSequenceMajorOrder) {
  const TensorLayout layout = make_layout(kShape, 16, MemoryOrder::bshd);
  EXPECT_EQ(layout.strides.head, 32);
  EXPECT_EQ(layout.strides.seq, 4 * 32);
  EXPECT_EQ(layout.strides.batch, 5 * 4 * 32);
  EXPECT_EQ(layout.span_elements, 3 * 4 * 5 * 32);
}

TEST(TensorLayout, HasExactlyTheAlignmentAskedFor) {
  for (const MemoryOrder order : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    for (const int alignment : {2, 4, 8}) {
      const TensorStrides strides = make_layout(kShape, alignment, order).strides;
      const long long common =
          2 * std::gcd(std::gcd(strides.batch, strides.head), std::gcd(strides.seq, 8LL));
      EXPECT_EQ(common, alignment);
    }
  }
}

}  // namespace
}  // namespace swr
