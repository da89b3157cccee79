// SPDX-License-Identifier: MIT
// What arguments hold before a kernel runs, and whether what they hold after it is right.
#pragma once

#include "kernel_spec/spec/kernel_plan.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace swr::kernel_spec {

/// Of a vector. Random elements depend on the seed and on their place alone.
/// Throws: Error{invalid_argument} where a file has another length, or a value cannot be computed.
std::vector<std::byte> initial_bytes(const KernelPlan& plan, const PlannedArgument& argument,
                                     const Point& point, unsigned long long seed);

/// Of a scalar. Throws: Error{invalid_argument}.
std::vector<std::byte> scalar_bytes(const PlannedArgument& argument, const Point& point);

struct ComparedOutput {
  /// ||difference|| / ||expected||; infinite where an element that is expected finite is none.
  double relative_error = 0.0;
  std::string failure;  ///< What is wrong; empty when all elements are within the tolerances.
};

/// Makes of an output's elements what is compared: where a parameter names their type, numbers in
/// fp64; else they stay.
void make_comparable(const PlannedArgument& argument, const ElementType& type,
                     std::vector<std::byte>& bytes);

/// Of comparable outputs. An element is right where |found - expected| <= absolute + relative *
/// |expected|. Elements that are equal bit by bit are right whatever they are. Requires: equal
/// lengths.
ComparedOutput compare_output(const PlannedArgument& argument, std::span<const std::byte> found,
                              std::span<const std::byte> expected);

}  // namespace swr::kernel_spec
