// SPDX-License-Identifier: MIT
#include "tuner/search/residual_field.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(ResidualField, ExpectsNothingWithoutMeasurements) {
  EXPECT_EQ(ResidualField().at({}), 0.0);
  EXPECT_EQ(ResidualField({}, {}).at({}), 0.0);
}

TEST(ResidualField, CarriesOneResidualToEveryVariant) {
  const ResidualField field({{.stages = 1}}, {0.5});
  EXPECT_DOUBLE_EQ(field.at({.stages = 1}), 0.5);
  EXPECT_DOUBLE_EQ(field.at({.stages = 4, .order = Order::sawtooth}), 0.5);
}

TEST(ResidualField, ComesCloseToWhatItWasTold) {
  const ResidualField field({{.stages = 1}, {.stages = 2}, {.order = Order::sawtooth}},
                            {0.4, -0.2, 0.1});
  EXPECT_NEAR(field.at({.stages = 1}), 0.4, 0.06);
  EXPECT_NEAR(field.at({.stages = 2}), -0.2, 0.06);
}

TEST(ResidualField, TrustsTheNearerOfTwo) {
  const Variant slow{.stages = 1};
  const Variant fast{.tile_m = 128, .stages = 4, .order = Order::sawtooth};
  const ResidualField field({slow, fast}, {1.0, -1.0});
  EXPECT_GT(field.at({.stages = 2}), 0.0);
  EXPECT_LT(field.at({.tile_m = 128, .stages = 4}), 0.0);
}

}  // namespace
}  // namespace swr
