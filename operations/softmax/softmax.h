// SPDX-License-Identifier: MIT
// What is asked of softmax over the rows of a matrix, and what is chosen for it.
#pragma once

#include "templates/softmax/config.h"
#include <swr/problem.h>
#include <swr/variant.h>

#include <compare>

namespace swr {

const Operation& softmax_operation();

/// y[row, :] = softmax(x[row, :]); both [rows, columns], of one 16-bit type, computed in fp32.
struct SoftmaxProblem {
  int rows = 1;
  int columns = 1;
  DType dtype = DType::fp16;
  int alignment_bytes = 16;  ///< Divides addresses and strides.

  auto operator<=>(const SoftmaxProblem&) const = default;
  using ErasedAs = Problem;
  static const Operation& operation() { return softmax_operation(); }
};

/// One choice on every axis; SoftmaxConfig says what each means.
struct SoftmaxVariant {
  Family family = Family::portable;
  int tile_rows = 1;
  int threads_per_row = 256;
  int vector = 1;
  int held = 0;
  int stages = 1;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;

  auto operator<=>(const SoftmaxVariant&) const = default;
  using ErasedAs = Variant;
  static const Operation& operation() { return softmax_operation(); }
};

}  // namespace swr
