// SPDX-License-Identifier: MIT
#include "db/shape_tree.h"

#include <algorithm>
#include <limits>
#include <span>

namespace swr {
namespace {

/// The dimension in which the points lie farthest apart.
std::uint32_t widest_dimension(std::span<const ShapeTree::Point> points) {
  ShapePoint low = points.front().at;
  ShapePoint high = low;
  for (const ShapeTree::Point& point : points) {
    for (int i = 0; i < ShapePoint::kDimensions; ++i) {
      low.octaves[i] = std::min(low.octaves[i], point.at.octaves[i]);
      high.octaves[i] = std::max(high.octaves[i], point.at.octaves[i]);
    }
  }
  std::uint32_t widest = 0;
  for (std::uint32_t i = 1; i < ShapePoint::kDimensions; ++i) {
    if (high.octaves[i] - low.octaves[i] > high.octaves[widest] - low.octaves[widest]) {
      widest = i;
    }
  }
  return widest;
}

}  // namespace

ShapeTree::ShapeTree(std::vector<Point> points)
    : size_(points.size()), blocks_((size_ + kBlock - 1) / kBlock), splits_(blocks_.size()) {
  build(points, 0, blocks_.size());
  for (std::size_t i = 0; i < blocks_.size() * kBlock; ++i) {
    Block& block = blocks_[i / kBlock];
    for (std::size_t dimension = 0; dimension < kDimensions; ++dimension) {
      block.octaves[dimension][i % kBlock] =
          i < size_ ? points[i].at.octaves[dimension] : std::numeric_limits<double>::quiet_NaN();
    }
    block.items[i % kBlock] = i < size_ ? points[i].item : 0;
  }
}

void ShapeTree::build(std::vector<Point>& points, std::size_t first, std::size_t last) {
  if (last - first <= 1) {
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  const std::span<Point> here = std::span(points).subspan(
      first * kBlock, std::min(last * kBlock, points.size()) - first * kBlock);
  const auto behind = here.begin() + static_cast<std::ptrdiff_t>((middle - first) * kBlock);
  const std::uint32_t split = widest_dimension(here);
  std::nth_element(here.begin(), behind, here.end(), [&](const Point& a, const Point& b) {
    return a.at.octaves[split] < b.at.octaves[split];
  });
  splits_[middle] = {behind->at.octaves[split], split};
  build(points, first, middle);
  build(points, middle, last);
}

}  // namespace swr
