// SPDX-License-Identifier: MIT
// The points of a space of parameters that satisfy its conditions. Found depth first, each
// condition computed as soon as all it names is chosen; parameters that no condition connects are
// walked apart and their points combined by place, so that a space of 10^9 points costs the memory
// of its parts. The idea of parts that are combined by place is that of pyATF's chains of trees
// (Schulze, Gorlatch, Rasch: pyATF, CC 2025).
#pragma once

#include "kernel_spec/expression/expression.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr::kernel_spec {

/// A parameter and the values it may have.
struct SpaceAxis {
  std::string name;
  std::vector<Value> values;  ///< At least one; text and lists outlive the space.
};

/// A condition over parameters and constants. A point where it cannot be computed is dropped.
struct SpaceCondition {
  std::string name;
  Expression expression;
};

/// A name that has one value in the whole space, such as a problem's size.
struct NamedValue {
  std::string name;
  Value value;
};

struct DroppedPoints {
  std::string condition;
  long long points =
      0;  ///< Of the whole product; each counts for the first condition that it breaks.
};

struct SpaceLimits {
  /// Of one part, in memory.
  std::size_t listed_points = 5'000'000;
  /// Conditions computed.
  long long checks = 200'000'000;
  /// Of the spec that the conditions belong to.
  std::shared_ptr<StepBudget> budget = nullptr;
};

/// Immutable; safe from any thread.
class Space {
 public:
  /// Throws: Error{invalid_argument} for unknown names, more than 2^62 points that satisfy the
  /// conditions, parts beyond the limits and a spent budget.
  Space(std::vector<SpaceAxis> axes, std::vector<SpaceCondition> conditions,
        std::span<const NamedValue> constants, const SpaceLimits& limits = {});

  /// The largest number where there are more; the same of dropped points.
  long long raw_points() const { return raw_points_; }
  long long points() const { return points_; }
  /// In the order of the conditions; those that drop nothing have 0.
  const std::vector<DroppedPoints>& dropped() const { return dropped_; }
  /// Why conditions could not be computed; the first reason of each.
  const std::vector<std::string>& errors() const { return errors_; }
  /// Conditions computed while the points were found.
  long long checks() const { return checks_; }

  /// The place of each axis' value, in the order of the axes. The order of points follows from
  /// axes and conditions alone. Requires: index < points().
  std::vector<int> at(long long index) const;

 private:
  class Walk;

  /// Parameters that conditions connect.
  struct Part {
    std::vector<std::size_t> axes;  ///< In the order in which they are walked.
    std::vector<std::size_t> conditions;
    std::vector<std::uint16_t> places;  ///< `axes.size()` for each point.
    long long points = 0;
    long long raw_points = 1;
    std::vector<long long> dropped;  ///< Of the part alone, by condition.
  };

  bool holds(std::size_t condition, std::span<const Value> table, ValueHeap& heap);
  void find_parts();
  void count(const SpaceLimits& limits);

  std::vector<SpaceAxis> axes_;
  std::vector<SpaceCondition> conditions_;
  std::vector<Value> table_;  ///< The axes' values, then the constants'.
  std::vector<BoundExpression> bound_;
  std::vector<Part> parts_;
  std::vector<DroppedPoints> dropped_;
  std::vector<std::string> errors_;
  long long raw_points_ = 1;
  long long points_ = 1;
  long long checks_ = 0;
};

}  // namespace swr::kernel_spec
