// SPDX-License-Identifier: MIT
// How far results answer for shapes that were not measured.
#pragma once

#include "core/operation.h"

#include <limits>

namespace swr {

/// What an operation is besides, whose results answer no shape far outside of those that were
/// measured: nothing there says that they are better than the default.
class AnswersNearItsHull {
 public:
  /// How far outside, in octaves of any size (ShapePoint).
  virtual double octaves_beyond_hull() const = 0;

 protected:
  ~AnswersNearItsHull() = default;
};

/// Infinity for operations whose results answer however far they are.
inline double octaves_beyond_hull(const Operation& operation) {
  const auto* const bound = dynamic_cast<const AnswersNearItsHull*>(&operation);
  return bound == nullptr ? std::numeric_limits<double>::infinity() : bound->octaves_beyond_hull();
}

}  // namespace swr
