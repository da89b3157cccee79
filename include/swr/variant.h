// SPDX-License-Identifier: MIT
// What is chosen, for any operation: one point of the tuning space, and the axes it is made of.
#pragma once

#include <swr/axes.h>
#include <swr/family.h>
#include <swr/field.h>
#include <swr/operation_value.h>

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace swr {

/// A variant of any operation: made from the operation's own struct, such as AttentionVariant, and
/// read back with as<AttentionVariant>() or get_if<AttentionVariant>().
class Variant : public OperationValue<Variant, 128> {
 public:
  using OperationValue::OperationValue;

  /// One of a user's own operation, member by member.
  static Variant zeroed(const Operation& operation) { return Variant(operation); }

  friend bool operator==(const Variant& a, const Variant& b) { return (a <=> b) == 0; }
  /// By operation in the order of registration, then member by member.
  friend std::strong_ordering operator<=>(const Variant& a, const Variant& b);

 private:
  explicit Variant(const Operation& operation) : OperationValue(operation) {}
};

std::string_view to_string(Order value);
std::string_view to_string(Persistence value);

/// The family of the kernel; an axis of every operation.
Family family_of(const Variant& variant);

/// The order in which a tile's inputs are walked, on whichever axis the operation has for it; empty
/// for operations without one.
std::optional<Order> order_of(const Variant& variant);
/// Requires: an order that the operation has.
void set_order(Variant& variant, Order order);

/// An axis value in the form in which it is stored and printed.
using AxisValue = std::variant<long long, std::string>;

/// One axis of an operation's tuning space.
struct Axis : Field {
  /// The one family that has the axis; empty for an axis of every family.
  std::optional<Family> only = {};

  bool belongs_to(Family family) const { return !only || *only == family; }

  // Require, all of them: variants of the axis' operation.
  AxisValue get(const Variant& variant) const;
  bool is_equal(const Variant& a, const Variant& b) const {
    return read(a.members()) == read(b.members());
  }
  /// Text is accepted for integers too.
  /// Throws: Error{invalid_argument} when the value is not one of the axis.
  void set(Variant& variant, const AxisValue& value) const;
};

/// Every axis, in the order of the struct's members; the family comes first. Immutable; safe from
/// any thread.
std::span<const Axis> axes(const Operation& operation);

/// Finds an axis by name; nullptr when there is none.
const Axis* find_axis(const Operation& operation, std::string_view name);

/// The variant whose axes all have their default.
Variant default_axes(const Operation& operation);

/// Canonical text, one `name=value` per axis of the variant's family joined by commas; equal
/// variants of one operation give equal keys.
std::string to_key(const Variant& variant);

/// Reads what to_key wrote. Axes that are not named keep their default.
/// Throws: Error{invalid_argument} naming the part that cannot be read or is of another family.
Variant parse_variant(const Operation& operation, std::string_view key);

/// Text of an axis value as printed in tables.
std::string to_string(const AxisValue& value);

}  // namespace swr
