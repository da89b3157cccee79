// SPDX-License-Identifier: MIT
// Where code for any operation meets that for one: the parts each operation brings, and a visit of
// problem and variant together.
#pragma once

#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace swr {

std::span<const Axis> attention_axes();
std::span<const Axis> gemm_axes();

std::span<const ConstraintInfo> attention_constraints();
std::span<const ConstraintInfo> gemm_constraints();

/// A rule that a variant breaks.
struct BrokenConstraint {
  const ConstraintInfo& constraint;
  std::string reason;  ///< One sentence with the numbers.
};

/// The first rule that a variant breaks before compilation, if any.
std::optional<BrokenConstraint> broken_constraint(const AttentionProblem& problem,
                                                  const AttentionVariant& variant,
                                                  const DeviceInfo& device);
std::optional<BrokenConstraint> broken_constraint(const GemmProblem& problem,
                                                  const GemmVariant& variant,
                                                  const DeviceInfo& device);

AttentionVariant default_variant(const AttentionProblem& problem, const DeviceInfo& device);
GemmVariant default_variant(const GemmProblem& problem, const DeviceInfo& device);

template <typename OneProblem>
struct VariantOf;
template <>
struct VariantOf<AttentionProblem> {
  using type = AttentionVariant;
};
template <>
struct VariantOf<GemmProblem> {
  using type = GemmVariant;
};

/// Calls action(problem, variant) with both of one operation.
/// Throws: Error{invalid_argument} when they are of different ones.
template <typename Action>
decltype(auto) visit_operation(const Problem& problem, const Variant& variant, Action&& action) {
  return std::visit(
      [&](const auto& one) -> decltype(auto) {
        using Chosen = typename VariantOf<std::decay_t<decltype(one)>>::type;
        const auto* const chosen = std::get_if<Chosen>(&variant);
        if (chosen == nullptr) {
          throw Error(ErrorCode::invalid_argument, "a variant of " +
                                                       std::string(to_string(op_of(variant))) +
                                                       " cannot compute " + to_string(problem));
        }
        return action(one, *chosen);
      },
      problem);
}

}  // namespace swr
