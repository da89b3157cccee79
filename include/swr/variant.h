// SPDX-License-Identifier: MIT
// What is chosen, for any operation: one point of the tuning space, and the axes it is made of.
#pragma once

#include <swr/attention_variant.h>
#include <swr/family.h>
#include <swr/gemm_variant.h>
#include <swr/problem.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace swr {

/// The alternatives are in the order of Op.
using Variant = std::variant<AttentionVariant, GemmVariant>;

std::string_view to_string(Order value);
std::string_view to_string(Persistence value);

/// True when `any` is of the other's operation and equal to it.
inline bool operator==(const Variant& any, const AttentionVariant& variant) {
  const auto* const same_op = std::get_if<AttentionVariant>(&any);
  return same_op != nullptr && *same_op == variant;
}
inline bool operator==(const Variant& any, const GemmVariant& variant) {
  const auto* const same_op = std::get_if<GemmVariant>(&any);
  return same_op != nullptr && *same_op == variant;
}

Op op_of(const Variant& variant);
Family family_of(const Variant& variant);

/// The order in which a tile's inputs are walked: attention's `order`, GEMM's `k_order`.
Order order_of(const Variant& variant);
/// Requires: an order that the operation has.
void set_order(Variant& variant, Order order);

/// An axis value in the form in which it is stored and printed.
using AxisValue = std::variant<long long, std::string>;

/// One axis of an operation's tuning space: described once for the command line, the database, JSON
/// and the documentation.
struct Axis {
  std::string_view name;     ///< Spelling on the command line, in JSON and as database column.
  std::string_view summary;  ///< One sentence for --help and the documentation.
  /// Requires, like `set`: the variant is of the axis' operation.
  AxisValue (*get)(const Variant&);
  /// Whether two variants of the axis' operation have the same value: get() without its texts.
  bool (*is_equal)(const Variant&, const Variant&);
  /// Call as axis.set(axis, variant, value); text is accepted for integers too.
  /// Throws: Error{invalid_argument} when the value is not one of the axis.
  void (*set)(const Axis& axis, Variant&, const AxisValue&);
  /// The accepted spellings of an enumerated axis; empty for integers.
  std::span<const std::string_view> spellings;
  /// The one family that has the axis; empty for an axis of every family.
  std::optional<Family> only;

  bool belongs_to(Family family) const { return !only || *only == family; }
};

/// Every axis, in the order of the variant's members. Immutable; safe from any thread.
std::span<const Axis> axes(Op op);

/// Finds an axis by name; nullptr when there is none.
const Axis* find_axis(Op op, std::string_view name);

/// The variant whose axes all have their default.
Variant default_axes(Op op);

/// Canonical text, one `name=value` per axis of the variant's family joined by commas; equal
/// variants of one operation give equal keys.
std::string to_key(const Variant& variant);

/// Reads what to_key wrote. Axes that are not named keep their default.
/// Throws: Error{invalid_argument} naming the part that cannot be read or is of another family.
Variant parse_variant(Op op, std::string_view key);

/// Text of an axis value as printed in tables.
std::string to_string(const AxisValue& value);

}  // namespace swr
