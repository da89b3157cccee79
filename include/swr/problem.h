// SPDX-License-Identifier: MIT
// What is asked for, for any operation.
#pragma once

#include <swr/field.h>
#include <swr/operation_value.h>
#include <swr/problem_size.h>

#include <compare>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// A problem of any operation: made from the operation's own struct, such as AttentionProblem, and
/// read back with as<AttentionProblem>() or get_if<AttentionProblem>().
class Problem : public OperationValue<Problem, 64> {
 public:
  using OperationValue::OperationValue;

  /// One of a user's own operation, member by member.
  static Problem zeroed(const Operation& operation) { return Problem(operation); }

  friend bool operator==(const Problem& a, const Problem& b) { return (a <=> b) == 0; }
  /// By operation in the order of registration, then member by member.
  friend std::strong_ordering operator<=>(const Problem& a, const Problem& b);

 private:
  explicit Problem(const Operation& operation) : OperationValue(operation) {}
};

/// How a field of a problem takes part in finding the nearest stored one.
enum class FieldRole {
  size,  ///< It may differ between neighbours: distance is measured in its octaves.
  kind,  ///< No size makes up for a difference in it.
};

/// One field of an operation's problems.
struct ProblemField : Field {
  FieldRole role = FieldRole::size;
  std::string_view option;  ///< Of the command line, without dashes, e.g. "kv-heads".
  /// What the field has when it is not given: the value of the field so called; else its default
  /// (`usual`), unless it is required.
  std::string_view follows = {};
  int usual = 0;
  bool is_required = false;
  bool takes_list = false;  ///< The command line takes several values, a problem for each.
};

/// Every field, in the order of the struct's members. Immutable; safe from any thread.
std::span<const ProblemField> fields(const Operation& operation);

/// Every registered operation, in the order of registration. Safe from any thread.
std::span<const Operation* const> operations();
/// Throws: Error{invalid_argument} listing the operations.
const Operation& find_operation(std::string_view name);
/// The same; nullptr when there is none.
const Operation* find_operation_or_null(std::string_view name);

// Throw, as the functions of the operation's own struct.
/// Throws: Error{invalid_argument} naming the first field that no kernel can serve.
void validate(const Problem& problem);
/// Floating-point operations of one launch.
double flop_count(const Problem& problem);
/// Bytes that must cross the memory bus at least once.
CompulsoryBytes compulsory_bytes(const Problem& problem);
/// Canonical one-line text, e.g. "attention b1 h16/16 s4096/4096 d128 fp16 causal".
std::string to_string(const Problem& problem);

/// The value of a field as it is written in tables: a flag is 0 or 1. Requires: a field of the
/// problem's operation.
std::string field_text(const Problem& problem, const Field& field);
/// Finds a field by name; nullptr when there is none.
const Field* find_field(const Operation& operation, std::string_view name);

}  // namespace swr
