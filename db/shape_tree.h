// SPDX-License-Identifier: MIT
// Finds the nearest of many shapes: a k-d tree over blocks of eight, kept as arrays without
// pointers. Coordinates of a block lie together by dimension, so that a few vector instructions
// measure all of it.
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
  };

  explicit ShapeTree(std::vector<Point> points);

  std::size_t size() const { return size_; }

  /// Calls consider(item, squared_distance) for every point that is not farther from `from` than
  /// `bound`, which consider() may lower meanwhile; near ones tend to come first.
  template <typename Consider>
  void visit_near(const ShapePoint& from, double& bound, Consider&& consider) const {
    Search<Consider> search{from, bound, consider, {}};
    if (!blocks_.empty()) {
      visit(0, blocks_.size(), 0.0, search);
    }
  }

 private:
  static constexpr std::size_t kBlock = 8;
  static constexpr std::size_t kDimensions = ShapePoint::kDimensions;
  /// Distances to boxes are updated in place; rounding must not hide an equally near point.
  static constexpr double kRounding = 1e-9;

  /// Points that lie together. Those that the last block lacks are not numbers, and so never near.
  struct alignas(64) Block {
    double octaves[kDimensions][kBlock];
    std::uint32_t items[kBlock];
  };

  /// No point of the blocks before one lies beyond it in the dimension, and no other one before it.
  struct Split {
    double octave = 0.0;
    std::uint32_t dimension = 0;
  };

  template <typename Consider>
  struct Search {
    const ShapePoint& from;
    double& bound;
    Consider& consider;
    /// From the question to the box of a subtree, by dimension.
    std::array<double, kDimensions> offsets;
  };

  void build(std::vector<Point>& points, std::size_t first, std::size_t last);

  template <typename Consider>
  static void visit_block(const Block& block, Search<Consider>& search) {
    double squared[kBlock] = {};
    for (std::size_t dimension = 0; dimension < kDimensions; ++dimension) {
      for (std::size_t lane = 0; lane < kBlock; ++lane) {
        const double octaves = block.octaves[dimension][lane] - search.from.octaves[dimension];
        squared[lane] += octaves * octaves;
      }
    }
    for (std::size_t lane = 0; lane < kBlock; ++lane) {
      if (squared[lane] <= search.bound) {
        search.consider(block.items[lane], squared[lane]);
      }
    }
  }

  /// Blocks [first, last), whose box lies at `box_squared`.
  template <typename Consider>
  void visit(std::size_t first, std::size_t last, double box_squared,
             Search<Consider>& search) const {
    if (last - first == 1) {
      visit_block(blocks_[first], search);
      return;
    }
    const std::size_t middle = first + (last - first) / 2;
    const Split& split = splits_[middle];
    const double beyond = search.from.octaves[split.dimension] - split.octave;
    const bool below = beyond < 0;
    visit(below ? first : middle, below ? middle : last, box_squared, search);
    const double former = search.offsets[split.dimension];
    const double far_squared = box_squared - former * former + beyond * beyond;
    if (far_squared <= search.bound + kRounding) {
      search.offsets[split.dimension] = beyond;
      visit(below ? middle : first, below ? last : middle, far_squared, search);
      search.offsets[split.dimension] = former;
    }
  }

  std::size_t size_ = 0;
  std::vector<Block> blocks_;
  std::vector<Split> splits_;  ///< By the first block behind each.
};

}  // namespace swr
