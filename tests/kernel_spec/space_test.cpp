// SPDX-License-Identifier: MIT
#include "kernel_spec/space/space.h"

#include "tests/support/test.h"

namespace swr::kernel_spec {
namespace {

SpaceAxis axis(const std::string& name, const std::string& values) {
  ValueHeap heap;
  return {name, *Expression(values, Dialect::python).evaluate({}, heap).list};
}

SpaceCondition condition(const std::string& text) {
  return {text, Expression(text, Dialect::python)};
}

long long sum_of(const std::vector<DroppedPoints>& dropped) {
  long long sum = 0;
  for (const DroppedPoints& one : dropped) {
    sum += one.points;
  }
  return sum;
}

std::vector<SpaceAxis> hotspot_axes() {
  return {axis("block_size_x", "[1, 2, 4, 8, 16] + [32*i for i in range(1, 33)]"),
          axis("block_size_y", "[2**i for i in range(6)]"),
          axis("tile_size_x", "list(range(1, 11))"),
          axis("tile_size_y", "list(range(1, 11))"),
          axis("temporal_tiling_factor", "list(range(1, 11))"),
          axis("loop_unroll_factor_t", "list(range(1, 11))"),
          axis("sh_power", "[0, 1]"),
          axis("blocks_per_sm", "[0, 1, 2, 3, 4]")};
}

std::vector<SpaceCondition> hotspot_conditions() {
  const std::string bytes =
      "(block_size_x*tile_size_x + temporal_tiling_factor*2) * "
      "(block_size_y*tile_size_y + temporal_tiling_factor*2) * (2+sh_power) * 4";
  return {condition("block_size_x*block_size_y >= 32"),
          condition("temporal_tiling_factor % loop_unroll_factor_t == 0"),
          condition("block_size_x*block_size_y <= 1024"), condition(bytes + " <= 49152"),
          condition("blocks_per_sm == 0 or (" + bytes + ") * blocks_per_sm <= 102400")};
}

// 349,853 is what Kernel Tuner's own tests expect of this space.
TEST(Space, ListsTheLargestPublishedHotspotSpace) {
  const Space space(hotspot_axes(), hotspot_conditions(), {});
  EXPECT_EQ(space.raw_points(), 22'200'000);
  EXPECT_EQ(space.points(), 349'853);
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
  EXPECT_LT(space.checks(), 2'000'000);
}

TEST(Space, HasTheSamePointsAsTryingAll) {
  const std::vector<SpaceAxis> axes{axis("a", "list(range(12))"), axis("b", "list(range(9))"),
                                    axis("c", "[1, 2, 4]"), axis("d", "[0.5, 2]")};
  const Space space(
      axes, {condition("a % c == 0"), condition("d == 2 or c > 1"), condition("a + 1 > 0")}, {});
  std::set<std::vector<int>> found;
  for (long long i = 0; i < space.points(); ++i) {
    EXPECT_TRUE(found.insert(space.at(i)).second) << i;
  }
  const int c_values[] = {1, 2, 4};
  std::set<std::vector<int>> expected;
  for (int a = 0; a < 12; ++a) {
    for (int b = 0; b < 9; ++b) {
      for (int c = 0; c < 3; ++c) {
        for (int d = 0; d < 2; ++d) {
          if (a % c_values[c] == 0 && (d == 1 || c > 0)) {
            expected.insert({a, b, c, d});
          }
        }
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
}

TEST(Space, CombinesPartsWithoutListingTheirProduct) {
  std::vector<SpaceAxis> axes;
  std::vector<SpaceCondition> conditions;
  for (const char* const name : {"a", "b", "c"}) {
    axes.push_back(axis(name, "list(range(1, 1001))"));
    conditions.push_back(condition(std::string(name) + " % 2 == 0"));
  }
  const Space space(axes, conditions, {});
  EXPECT_EQ(space.raw_points(), 1'000'000'000);
  EXPECT_EQ(space.points(), 125'000'000);
  EXPECT_EQ(space.checks(), 3000);
  EXPECT_THAT(space.at(0), ElementsAre(1, 1, 1));
  EXPECT_THAT(space.at(space.points() - 1), ElementsAre(999, 999, 999));
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
}

TEST(Space, DropsPointsWhereAConditionHasNoValue) {
  const Space space({axis("a", "[0, 1, 2]")}, {condition("4 // a == 4")}, {});
  EXPECT_EQ(space.points(), 1);
  EXPECT_THAT(space.errors().front(), HasSubstr("division by zero"));
}

TEST(Space, DropsAllWhereAConditionOverConstantsFails) {
  const std::vector<NamedValue> constants{{"n", Value::of(5LL)}};
  const Space space({axis("a", "[0, 1, 2]")}, {condition("n > 7")}, constants);
  EXPECT_EQ(space.points(), 0);
  EXPECT_EQ(space.dropped().front().points, 3);
}

/// As spaces of generated kernels are: most parameters follow from others.
TEST(Space, IsWalkedWhereTheRawProductIsBeyondAnyCount) {
  std::vector<SpaceAxis> axes;
  std::vector<SpaceCondition> conditions;
  constexpr int kAxes = 50;
  for (int i = 0; i < kAxes; ++i) {
    axes.push_back(axis("p" + std::to_string(i), "[1, 2, 4, 8]"));
    if (i >= 2) {
      conditions.push_back(condition("p" + std::to_string(i) + " == p" + std::to_string(i % 2)));
    }
  }
  const Space space(axes, conditions, {});
  EXPECT_EQ(space.raw_points(), std::numeric_limits<long long>::max()) << "4^50";
  ASSERT_EQ(space.points(), 16);
  EXPECT_LT(space.checks(), 10'000);
  const std::vector<int> last = space.at(15);
  for (int i = 0; i < kAxes; ++i) {
    EXPECT_EQ(last[static_cast<std::size_t>(i)], 3);
  }
  EXPECT_EQ(std::ranges::max(space.dropped(), {}, &DroppedPoints::points).points,
            std::numeric_limits<long long>::max());
}

TEST(Space, RefusesWhatIsBeyondItsLimits) {
  const auto error_of = [](auto make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const SpaceAxis thousand = axis("a", "list(range(1000))");
  const SpaceAxis other = axis("b", "list(range(1000))");
  EXPECT_THAT(error_of([&] {
                Space({thousand, other}, {condition("a + b > 0")}, {}, {.checks = 1000});
              }),
              HasSubstr("more than 1000 conditions"));
  EXPECT_THAT(error_of([&] {
                Space({thousand, other}, {condition("a + b > 0")}, {}, {.listed_points = 10});
              }),
              HasSubstr("more than 10 points"));
  EXPECT_THAT(error_of([&] { Space(std::vector(7, thousand), {}, {}); }), HasSubstr("2^62"));
  EXPECT_THAT(error_of([&] { Space({thousand}, {condition("c > 0")}, {}); }),
              HasSubstr("unknown name 'c'"));
}

}  // namespace
}  // namespace swr::kernel_spec
