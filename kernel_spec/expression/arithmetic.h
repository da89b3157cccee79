// SPDX-License-Identifier: MIT
// Operators and functions on values with Python's results. Whole numbers have 64 bits: where Python
// would go on with a longer one, there is an error.
#pragma once

#include "kernel_spec/expression/value.h"

#include <span>

namespace swr::kernel_spec {

enum class BinaryOperator : unsigned char {
  add,
  subtract,
  multiply,
  divide,        ///< Python's `/`, which is real.
  floor_divide,  ///< `//`, rounds down.
  modulo,        ///< `%`, has the sign of the divisor.
  power,
  c_divide,  ///< C's `/`: whole numbers give a whole number, rounded towards zero.
  c_modulo,  ///< C's `%`: the sign of the dividend.
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,  ///< Rounds down.
};

/// What expressions may call.
enum class Function : unsigned char {
  abs,
  all,
  any,
  to_truth,  ///< bool
  ceil,
  div_ceil,
  divmod,
  exp,
  to_real,  ///< float
  floor,
  gcd,
  to_integer,  ///< int
  isqrt,
  lcm,
  length,   ///< len
  to_list,  ///< list
  log,
  log10,
  log2,
  max,
  min,
  pow,
  prod,
  range,
  round,
  sorted,
  sqrt,
  to_text,  ///< str
  sum,
  trunc,
  to_tuple,    ///< tuple, which is a list here
  is_integer,  ///< A method.
  distinct,    ///< set, of which only len() and `in` may ask
};

// Throw, all of them: Error{invalid_argument} where Python raises an error, or a whole number needs
// more than 64 bits.

Value apply_to_any(BinaryOperator op, const Value& a, const Value& b, ValueHeap& heap);

/// The same; most conditions are over whole numbers, whose commonest operators cost no call.
inline Value apply(BinaryOperator op, const Value& a, const Value& b, ValueHeap& heap) {
  if (a.kind == ValueKind::integer && b.kind == ValueKind::integer) {
    long long result = 0;
    switch (op) {
      case BinaryOperator::add:
        if (!__builtin_add_overflow(a.integer, b.integer, &result)) {
          return Value::of(result);
        }
        break;
      case BinaryOperator::multiply:
        if (!__builtin_mul_overflow(a.integer, b.integer, &result)) {
          return Value::of(result);
        }
        break;
      case BinaryOperator::subtract:
        if (!__builtin_sub_overflow(a.integer, b.integer, &result)) {
          return Value::of(result);
        }
        break;
      case BinaryOperator::floor_divide:
        if (a.integer >= 0 && b.integer > 0) {
          return Value::of(a.integer / b.integer);
        }
        break;
      case BinaryOperator::modulo:
        if (a.integer >= 0 && b.integer > 0) {
          return Value::of(a.integer % b.integer);
        }
        break;
      case BinaryOperator::equal:
        return Value::of(a.integer == b.integer);
      case BinaryOperator::not_equal:
        return Value::of(a.integer != b.integer);
      case BinaryOperator::less:
        return Value::of(a.integer < b.integer);
      case BinaryOperator::less_equal:
        return Value::of(a.integer <= b.integer);
      case BinaryOperator::greater:
        return Value::of(a.integer > b.integer);
      case BinaryOperator::greater_equal:
        return Value::of(a.integer >= b.integer);
      default:
        break;
    }
  }
  return apply_to_any(op, a, b, heap);
}

Value negated(const Value& value);
/// `+x`: of a truth value the whole number.
Value unchanged_number(const Value& value);
Value item_at(const Value& list, const Value& index, ValueHeap& heap);
Value call(Function function, std::span<const Value> arguments, ValueHeap& heap);

bool is_true(const Value& value);

}  // namespace swr::kernel_spec
