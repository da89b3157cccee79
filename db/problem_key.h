// SPDX-License-Identifier: MIT
// A problem of any operation in the form in which the lookup compares them: what selects other
// kernels as one number, and the sizes that may differ between neighbours.
#pragma once

#include "core/shape_distance.h"
#include <swr/problem.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace swr {

struct ProblemKey {
  /// The operation and the fields that are no sizes: nothing makes up for a difference in one of
  /// them.
  std::uint64_t kind = 0;
  /// The sizes in the order of the fields, and 1 for those that the operation lacks.
  std::array<int, ShapePoint::kDimensions> sizes{};

  auto operator<=>(const ProblemKey&) const = default;
};

/// Requires, like the following: a valid problem.
ProblemKey problem_key(const Problem& problem);
/// The inverse.
Problem problem_of(const ProblemKey& key);

ShapePoint shape_point(const ProblemKey& key);

std::size_t hash_of(const ProblemKey& key);

}  // namespace swr
