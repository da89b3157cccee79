// SPDX-License-Identifier: MIT
// An operation that no kernel serves, for tests of what follows from declared fields and axes
// alone: running sums along the rows of a matrix.
#pragma once

#include <swr/axes.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <compare>

namespace swr::fictional {

/// Sums along each row of a matrix [rows, columns].
struct ScanProblem {
  int rows = 1;
  int columns = 0;
  DType dtype = DType::fp16;
  bool exclusive = false;  ///< The sum of the elements before.

  auto operator<=>(const ScanProblem&) const = default;

  using ErasedAs = Problem;
  static const Operation& operation();
};

enum class Direction { forward, backward };

struct ScanVariant {
  Family family = Family::portable;
  int threads = 128;
  Direction direction = Direction::forward;  ///< Its axis is a keyword of SQL.
  int items = 4;                             ///< Of the Hopper family alone.
  bool keeps_carry = false;                  ///< An axis that came later.

  auto operator<=>(const ScanVariant&) const = default;

  using ErasedAs = Variant;
  static const Operation& operation();
};

/// Registered behind attention and GEMM in programs that link fictional_operation.cpp.
const Operation& scan_operation();

}  // namespace swr::fictional
