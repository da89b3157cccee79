// SPDX-License-Identifier: MIT
#include "tests/support/attention.h"
#include "tuner/predict/model_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace swr {
namespace {

using ::testing::ElementsAre;

std::vector<Variant> four_variants() {
  std::vector<Variant> variants(4);
  attention(variants[0]).stages = 3;
  attention(variants[1]).swizzle = AttentionSwizzle::head_fastest;
  attention(variants[2]).swizzle = AttentionSwizzle::q_fastest;
  attention(variants[3]).tile_m = 128;
  return variants;
}

TEST(Shortlist, IsInTheOrderOfPredictedTime) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 3.0, 2.0, 1.0}), ElementsAre(3, 2, 1, 0));
}

TEST(Shortlist, PutsSwizzlesThatCannotBeToldApartBehindOthersUpTo2PercentSlower) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.03}),
              ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.0, 2.05}),
              ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.01, 3.0}),
              ElementsAre(1, 2, 3, 0));
}

TEST(Shortlist, NamesTheTilesOfOneHeadOnEndFirstOfSwizzlesThatCannotBeToldApart) {
  EXPECT_THAT(shortlist(four_variants(), std::vector{4.0, 2.0, 2.001, 3.0}),
              ElementsAre(2, 1, 3, 0));
}

TEST(Shortlist, DoesNotDependOnTheOrderInWhichVariantsCome) {
  std::vector<Variant> variants = four_variants();
  const std::vector<double> equal(variants.size(), 1.0);
  const Variant first = variants[shortlist(variants, equal).front()];
  std::swap(variants[0], variants[3]);
  std::swap(variants[1], variants[2]);
  EXPECT_EQ(variants[shortlist(variants, equal).front()], first);
}

}  // namespace
}  // namespace swr
