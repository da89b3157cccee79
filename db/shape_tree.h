// SPDX-License-Identifier: MIT
// Finds the nearest of many shapes: a k-d tree kept as one sorted array, without pointers.
#pragma once

#include "core/shape_distance.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace swr {

/// Immutable once built; safe from any thread.
class ShapeTree {
 public:
  struct Point {
    ShapePoint at;
    std::uint32_t item = 0;
    /// Dimension in which the halves before and behind this point differ; set by the tree.
    std::uint8_t split = 0;
  };

  explicit ShapeTree(std::vector<Point> points);

  std::size_t size() const { return points_.size(); }

  /// Calls consider(item, squared_distance) for every point that is not farther from `from` than
  /// `bound`, which consider() may lower meanwhile; near ones tend to come first.
  template <typename Consider>
  void visit_near(const ShapePoint& from, double& bound, Consider&& consider) const {
    Offsets offsets{};
    visit(0, points_.size(), from, 0.0, offsets, bound, consider);
  }

 private:
  /// Distance from the question to the box of a subtree, by dimension.
  using Offsets = std::array<double, ShapePoint::kDimensions>;
  static constexpr std::size_t kLeafSize = 8;
  /// Distances to boxes are updated in place; rounding must not hide an equally near point.
  static constexpr double kRounding = 1e-9;

  void build(std::size_t low, std::size_t high);

  template <typename Consider>
  void visit_point(const Point& point, const ShapePoint& from, double& bound,
                   Consider& consider) const {
    const double squared = squared_distance(point.at, from);
    if (squared <= bound) {
      consider(point.item, squared);
    }
  }

  /// `box_squared` is the squared distance to the box that holds points [low, high).
  template <typename Consider>
  void visit(std::size_t low, std::size_t high, const ShapePoint& from, double box_squared,
             Offsets& offsets, double& bound, Consider& consider) const {
    if (high - low <= kLeafSize) {
      for (std::size_t i = low; i < high; ++i) {
        visit_point(points_[i], from, bound, consider);
      }
      return;
    }
    const std::size_t middle = low + (high - low) / 2;
    const Point& point = points_[middle];
    const std::size_t split = point.split;
    const double beyond = from.octaves[split] - point.at.octaves[split];
    const bool below = beyond < 0;
    visit(below ? low : middle + 1, below ? middle : high, from, box_squared, offsets, bound,
          consider);
    visit_point(point, from, bound, consider);
    const double former = offsets[split];
    const double far_squared = box_squared - former * former + beyond * beyond;
    if (far_squared <= bound + kRounding) {
      offsets[split] = beyond;
      visit(below ? middle + 1 : low, below ? high : middle, from, far_squared, offsets, bound,
            consider);
      offsets[split] = former;
    }
  }

  std::vector<Point> points_;
};

}  // namespace swr
