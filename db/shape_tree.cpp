// SPDX-License-Identifier: MIT
#include "db/shape_tree.h"

#include <algorithm>
#include <utility>

namespace swr {
namespace {

using Iterator = std::vector<ShapeTree::Point>::iterator;

/// The dimension in which the points lie farthest apart.
std::uint8_t widest_dimension(Iterator begin, Iterator end) {
  int widest = 0;
  double width = -1.0;
  for (int dimension = 0; dimension < ShapePoint::kDimensions; ++dimension) {
    const auto [low, high] = std::minmax_element(begin, end, [&](const auto& a, const auto& b) {
      return a.at.octaves[dimension] < b.at.octaves[dimension];
    });
    const double here = high->at.octaves[dimension] - low->at.octaves[dimension];
    if (here > width) {
      widest = dimension;
      width = here;
    }
  }
  return static_cast<std::uint8_t>(widest);
}

}  // namespace

ShapeTree::ShapeTree(std::vector<Point> points) : points_(std::move(points)) {
  build(0, points_.size());
}

void ShapeTree::build(std::size_t low, std::size_t high) {
  if (high - low <= kLeafSize) {
    return;
  }
  const Iterator begin = points_.begin() + static_cast<std::ptrdiff_t>(low);
  const Iterator end = points_.begin() + static_cast<std::ptrdiff_t>(high);
  const std::size_t middle = low + (high - low) / 2;
  const std::uint8_t split = widest_dimension(begin, end);
  std::nth_element(
      begin, points_.begin() + static_cast<std::ptrdiff_t>(middle), end,
      [&](const Point& a, const Point& b) { return a.at.octaves[split] < b.at.octaves[split]; });
  points_[middle].split = split;
  build(low, middle);
  build(middle + 1, high);
}

}  // namespace swr
