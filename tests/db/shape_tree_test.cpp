// SPDX-License-Identifier: MIT
#include "db/shape_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace swr {
namespace {

template <typename Size>
std::vector<ShapeTree::Point> points_of(std::size_t count, Size&& size) {
  std::vector<ShapeTree::Point> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    points[i].at = shape_point(size(), size(), size(), 3 * size(), size());
    points[i].item = static_cast<std::uint32_t>(i);
  }
  return points;
}

/// Sizes from a coarse grid, so that many points are equal or equally far.
std::vector<ShapeTree::Point> points_of_a_grid(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 << random() % 7; });
}

/// Sizes of any kind, large ones among them.
std::vector<ShapeTree::Point> points_anywhere(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 + static_cast<int>(random() % (1U << random() % 28)); });
}

/// Every item at the smallest distance, by looking at all of them.
std::set<std::uint32_t> nearest_of_all(const std::vector<ShapeTree::Point>& points,
                                       const ShapePoint& from) {
  double nearest = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  for (const ShapeTree::Point& point : points) {
    const double squared = squared_distance(point.at, from);
    if (squared < nearest) {
      items.clear();
    }
    nearest = std::min(nearest, squared);
    if (squared == nearest) {
      items.insert(point.item);
    }
  }
  return items;
}

std::set<std::uint32_t> nearest_of_tree(const ShapeTree& tree, const ShapePoint& from) {
  double bound = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  tree.visit_near(from, bound, [&](std::uint32_t item, double squared) {
    if (squared < bound) {
      items.clear();
    }
    bound = squared;
    items.insert(item);
  });
  return items;
}

void expect_nearest_of_all(const std::vector<ShapeTree::Point>& points,
                           const std::vector<ShapeTree::Point>& questions) {
  const ShapeTree tree(points);
  EXPECT_EQ(tree.size(), points.size());
  for (const ShapeTree::Point& question : questions) {
    EXPECT_EQ(nearest_of_tree(tree, question.at), nearest_of_all(points, question.at));
  }
}

TEST(ShapeTree, FindsEveryNearestPointOfRandomOnes) {
  std::mt19937 random(3);
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 16U, 17U, 100U, 1500U}) {
    expect_nearest_of_all(points_of_a_grid(count, random), points_of_a_grid(200, random));
    expect_nearest_of_all(points_anywhere(count, random), points_anywhere(200, random));
  }
}

TEST(ShapeTree, LooksAtFewOfManyPoints) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> length(1, 1 << 20);
  std::vector<ShapeTree::Point> points(10000);
  for (ShapeTree::Point& point : points) {
    point.at = shape_point(1, 16, 16, length(random), length(random));
  }
  const ShapeTree tree(points);
  int considered = 0;
  double bound = std::numeric_limits<double>::infinity();
  tree.visit_near(shape_point(1, 16, 16, 5000, 5000), bound, [&](std::uint32_t, double squared) {
    bound = squared;
    ++considered;
  });
  EXPECT_LT(considered, 100);
}

}  // namespace
}  // namespace swr
