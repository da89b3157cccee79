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
  /// Operation, types, layout, mask, head_dim and alignment: no size makes up for a difference in
  /// one of them.
  std::uint64_t kind = 0;
  /// Attention: batch, heads_q, heads_kv, seq_q, seq_kv. GEMM: batch, m, n, k, and 1.
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
