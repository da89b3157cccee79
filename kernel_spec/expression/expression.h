// SPDX-License-Identifier: MIT
// An expression of a kernel spec: read once, then computed for many points of a space. It can do
// nothing but compute, within limits. docs/kernel_expressions.md has the grammar.
#pragma once

#include "kernel_spec/expression/arithmetic.h"
#include "kernel_spec/expression/integer_program.h"
#include "kernel_spec/expression/tokens.h"
#include "kernel_spec/expression/value.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

/// A part of an expression; its operands are other nodes.
struct ExpressionNode {
  enum class Kind : unsigned char {
    constant,
    name,
    local,  ///< The variable of a list comprehension.
    binary,
    negation,
    plus,
    logical_not,
    logical_and,  ///< The first operand that is not true, else the last.
    logical_or,
    both_true,    ///< C's &&: a truth value.
    either_true,  ///< C's ||.
    conditional,  ///< a if b else c: operands b, a, c.
    list,
    call,
    item,
    /// Operands: the item, the list, and what must be true. Of any() and all() with that function.
    comprehension,
  };

  Kind kind = Kind::constant;
  BinaryOperator op = BinaryOperator::add;
  Function function = Function::abs;
  std::uint32_t column = 0;
  std::uint32_t operands[3] = {0, 0, 0};
  /// Of a list or a call: operands in operand_lists, from operands[0] on, operands[1] of them.
  /// Of names and locals: their place.
  std::uint32_t place = 0;
  Value value = {};  ///< Of a constant.
};

/// Immutable; safe from any thread.
class Expression {
 public:
  static constexpr std::size_t kMostNodes = 4096;
  static constexpr int kMostDepth = 64;
  /// Nodes computed by one evaluation.
  static constexpr long long kMostSteps = 20'000'000;

  /// Throws: Error{invalid_argument} with the column.
  Expression(std::string text, Dialect dialect);

  const std::string& text() const { return text_; }
  /// What the expression depends on, in the order of first use.
  const std::vector<std::string>& names() const { return names_; }

  /// Computes it with the values of `names()`, in their order. Lists that it makes lie in `heap`.
  /// Throws: Error{invalid_argument} with the column of what cannot be computed.
  Value evaluate(std::span<const Value> values, ValueHeap& heap) const;

 private:
  friend class ExpressionParser;
  friend class Evaluation;
  friend class BoundExpression;
  friend class IntegerProgram;

  std::string text_;
  std::vector<std::string> names_;
  std::vector<ExpressionNode> nodes_;
  std::vector<std::uint32_t> operand_lists_;
  std::uint32_t root_ = 0;
  std::uint32_t locals_ = 0;
  /// Constant texts.
  std::shared_ptr<ValueHeap> constants_;
};

/// An expression whose names are places in a table of values.
/// Thread-safe as Expression is.
class BoundExpression {
 public:
  /// Throws: Error{invalid_argument} naming what is unknown, and the nearest that is known.
  BoundExpression(const Expression& expression, std::span<const std::string> known);

  /// With names as places in the table.
  const Expression& expression() const { return expression_; }
  /// Places in the table that are read.
  const std::vector<std::size_t>& places() const { return places_; }
  /// As Expression::evaluate(), with the whole table.
  Value evaluate(std::span<const Value> table, ValueHeap& heap) const {
    return expression_.evaluate(table, heap);
  }
  /// The same value as a number where it is a truth value: for who needs a whole number, or whether
  /// it is true, and needs it often.
  Value evaluate_number(std::span<const Value> table, ValueHeap& heap) const {
    if (!integers_->is_empty()) {
      if (const auto found = integers_->run(table)) {
        return Value::of(*found);
      }
    }
    return expression_.evaluate(table, heap);
  }

 private:
  Expression expression_;  ///< Its names' nodes hold places in the table.
  std::vector<std::size_t> places_;
  std::optional<IntegerProgram> integers_;  ///< There once it is bound.
};

/// ", did you mean 'x'?" or ", known are a, b".
std::string advice_for_unknown(std::string_view name, std::span<const std::string> known);

}  // namespace swr::kernel_spec
