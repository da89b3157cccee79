// SPDX-License-Identifier: MIT
// An expression over whole numbers and truth values as instructions for a stack: most conditions
// and launches are so, and spaces compute millions of them.
#pragma once

#include "kernel_spec/expression/arithmetic.h"
#include "kernel_spec/expression/value.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace swr::kernel_spec {

class Expression;

/// Immutable; safe from any thread.
class IntegerProgram {
 public:
  /// Empty where the expression has real division, text, lists or most functions. Names are places
  /// in a table of values.
  explicit IntegerProgram(const Expression& expression);

  bool is_empty() const { return code_.empty(); }
  /// The value that the expression has, of truth 0 or 1. Nothing where a name is no whole number,
  /// or the expression has an error, which its own evaluation tells. Requires: not empty.
  std::optional<long long> run(std::span<const Value> table) const;

 private:
  enum class Code : unsigned char {
    constant,
    name,
    binary,
    div_ceil,
    negate,
    logical_not,
    truth,
    keep_if_false,  ///< Jumps where the top is false, else takes it off.
    keep_if_true,
    jump_if_false,  ///< Takes the top off in any case.
    jump,
  };
  struct Instruction {
    Code code = Code::constant;
    BinaryOperator op = BinaryOperator::add;
    std::uint32_t target = 0;  ///< Of a jump; the place of a name.
    long long value = 0;       ///< Of a constant.
  };

  bool write(const Expression& expression, std::uint32_t node, int depth);
  bool write_both(const Expression& expression, std::uint32_t node, Code decides, bool as_truth,
                  int depth);
  bool write_conditional(const Expression& expression, std::uint32_t node, int depth);

  std::vector<Instruction> code_;
};

}  // namespace swr::kernel_spec
