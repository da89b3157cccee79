// SPDX-License-Identifier: MIT
#include "tuner/search/residual_field.h"

#include "tests/support/test.h"
#include <swr/attention_variant.h>

namespace swr {
namespace {

const std::vector<Variant> kSpace{
    AttentionVariant{.stages = 1}, AttentionVariant{.stages = 2},
    AttentionVariant{.order = Order::sawtooth},
    AttentionVariant{.tile_m = 128, .stages = 4, .order = Order::sawtooth},
    AttentionVariant{.tile_m = 128, .stages = 4}};

ResidualField field_with(const std::vector<std::size_t>& places) {
  ResidualField field(kSpace);
  for (const std::size_t place : places) {
    field.add(place);
  }
  return field;
}

TEST(ResidualField, ExpectsNothingAndKnowsNothingWithoutMeasurements) {
  EXPECT_EQ(field_with({}).expected({}), std::vector<double>(5, 0.0));
  EXPECT_EQ(field_with({}).deviation(0), 1.0);
}

TEST(ResidualField, CarriesOneResidualToEveryVariant) {
  for (const double expected : field_with({0}).expected({0.5})) {
    EXPECT_DOUBLE_EQ(expected, 0.5);
  }
}

TEST(ResidualField, ComesCloseToWhatItWasTold) {
  const std::vector<double> expected = field_with({0, 1, 2}).expected({0.4, -0.2, 0.1});
  EXPECT_NEAR(expected[0], 0.4, 0.06);
  EXPECT_NEAR(expected[1], -0.2, 0.06);
}

TEST(ResidualField, TrustsTheNearerOfTwo) {
  const std::vector<double> expected = field_with({0, 3}).expected({1.0, -1.0});
  EXPECT_GT(expected[1], 0.0);
  EXPECT_LT(expected[4], 0.0);
}

TEST(ResidualField, KnowsLessOfAVariantTheLessItHasInCommonWithThoseMeasured) {
  const ResidualField field = field_with({0});
  EXPECT_LT(field.deviation(0), 0.25);
  EXPECT_LT(field.deviation(0), field.deviation(1));
  EXPECT_LT(field.deviation(1), field.deviation(3));
  EXPECT_LT(field.deviation(3), 1.0);
}

TEST(ResidualField, ResidualsStillAwaitedDoNotChangeWhatIsExpected) {
  const std::vector<double> before = field_with({0}).expected({0.5});
  EXPECT_EQ(field_with({0, 3}).expected({0.5}), before);
}

}  // namespace
}  // namespace swr
