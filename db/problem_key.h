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
  /// The operation and its fields of that role, packed: no size makes up for a difference in one.
  std::uint64_t kind = 0;
  /// The fields that are sizes, in declared order; 1 behind them.
  std::array<int, ShapePoint::kDimensions> sizes{};

  auto operator<=>(const ProblemKey&) const = default;
};

/// Throws: Error{invalid_argument} when keys have no room for the operation's fields. An operation
/// that is registered must pass, as a test proves.
void require_key(const Operation& operation);

/// Of a problem that is not valid it is equal to no key of a valid one.
ProblemKey problem_key(const Problem& problem);
/// The inverse. Requires, like the following: the key of a valid problem.
Problem problem_of(const ProblemKey& key);

ShapePoint shape_point(const ProblemKey& key);

std::size_t hash_of(const ProblemKey& key);

}  // namespace swr
