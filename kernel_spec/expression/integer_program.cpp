// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/integer_program.h"

#include "kernel_spec/expression/expression.h"

#include <array>
#include <limits>

namespace swr::kernel_spec {
namespace {

constexpr int kMostDepth = Expression::kMostDepth + 2;

bool is_for_integers(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::divide:
    case BinaryOperator::power:
    case BinaryOperator::in:
    case BinaryOperator::not_in:
    case BinaryOperator::shift_left:
    case BinaryOperator::shift_right:
      return false;
    default:
      return true;
  }
}

bool is_divisible(long long a, long long b) {
  return b != 0 && !(b == -1 && a == std::numeric_limits<long long>::min());
}

/// False where there is no value.
bool computed(BinaryOperator op, long long a, long long b, long long& result) {
  using Operator = BinaryOperator;
  switch (op) {
    case Operator::add:
      return !__builtin_add_overflow(a, b, &result);
    case Operator::subtract:
      return !__builtin_sub_overflow(a, b, &result);
    case Operator::multiply:
      return !__builtin_mul_overflow(a, b, &result);
    case Operator::floor_divide:
      if (!is_divisible(a, b)) {
        return false;
      }
      result = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
      return true;
    case Operator::modulo:
      if (!is_divisible(a, b)) {
        return false;
      }
      result = a % b;
      result += result != 0 && (result < 0) != (b < 0) ? b : 0;
      return true;
    case Operator::c_divide:
      if (!is_divisible(a, b)) {
        return false;
      }
      result = a / b;
      return true;
    case Operator::c_modulo:
      if (!is_divisible(a, b)) {
        return false;
      }
      result = a % b;
      return true;
    case Operator::equal:
      result = a == b ? 1 : 0;
      return true;
    case Operator::not_equal:
      result = a != b ? 1 : 0;
      return true;
    case Operator::less:
      result = a < b ? 1 : 0;
      return true;
    case Operator::less_equal:
      result = a <= b ? 1 : 0;
      return true;
    case Operator::greater:
      result = a > b ? 1 : 0;
      return true;
    case Operator::greater_equal:
      result = a >= b ? 1 : 0;
      return true;
    case Operator::bit_and:
      result = a & b;
      return true;
    case Operator::bit_or:
      result = a | b;
      return true;
    case Operator::bit_xor:
      result = a ^ b;
      return true;
    default:
      return false;
  }
}

bool divided_up(long long a, long long b, long long& result) {
  if (!is_divisible(a, b)) {
    return false;
  }
  result = a / b + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
  return true;
}

}  // namespace

IntegerProgram::IntegerProgram(const Expression& expression) {
  if (!write(expression, expression.root_, 1)) {
    code_.clear();
  }
}

bool IntegerProgram::write(const Expression& expression, std::uint32_t index, int depth) {
  using Kind = ExpressionNode::Kind;
  const ExpressionNode& node = expression.nodes_[index];
  const auto operand = [&](int which, int below) {
    return write(expression, node.operands[which], depth + below);
  };
  if (depth > kMostDepth) {
    return false;
  }
  switch (node.kind) {
    case Kind::constant:
      code_.push_back({.code = Code::constant, .value = node.value.integer});
      return node.value.is_integral();
    case Kind::name:
      code_.push_back({.code = Code::name, .target = node.place});
      return true;
    case Kind::binary:
      if (!is_for_integers(node.op) || !operand(0, 0) || !operand(1, 1)) {
        return false;
      }
      code_.push_back({.code = Code::binary, .op = node.op});
      return true;
    case Kind::negation:
    case Kind::logical_not:
      if (!operand(0, 0)) {
        return false;
      }
      code_.push_back({.code = node.kind == Kind::negation ? Code::negate : Code::logical_not});
      return true;
    case Kind::logical_and:
    case Kind::both_true:
      return write_both(expression, index, Code::keep_if_false, node.kind == Kind::both_true,
                        depth);
    case Kind::logical_or:
    case Kind::either_true:
      return write_both(expression, index, Code::keep_if_true, node.kind == Kind::either_true,
                        depth);
    case Kind::conditional:
      return write_conditional(expression, index, depth);
    case Kind::call: {
      constexpr std::uint32_t kOperands = 2;
      if (node.function != Function::div_ceil || node.operands[1] != kOperands) {
        return false;
      }
      const auto* const operands = &expression.operand_lists_[node.operands[0]];
      if (!write(expression, operands[0], depth) || !write(expression, operands[1], depth + 1)) {
        return false;
      }
      code_.push_back({.code = Code::div_ceil});
      return true;
    }
    default:
      return false;
  }
}

/// The first operand, which stays where it decides; else the second one.
bool IntegerProgram::write_both(const Expression& expression, std::uint32_t index, Code decides,
                                bool as_truth, int depth) {
  const ExpressionNode& node = expression.nodes_[index];
  if (!write(expression, node.operands[0], depth)) {
    return false;
  }
  const std::size_t jump = code_.size();
  code_.push_back({.code = decides});
  if (!write(expression, node.operands[1], depth)) {
    return false;
  }
  code_[jump].target = static_cast<std::uint32_t>(code_.size());
  if (as_truth) {
    code_.push_back({.code = Code::truth});
  }
  return true;
}

bool IntegerProgram::write_conditional(const Expression& expression, std::uint32_t index,
                                       int depth) {
  const ExpressionNode& node = expression.nodes_[index];
  if (!write(expression, node.operands[0], depth)) {
    return false;
  }
  const std::size_t to_other = code_.size();
  code_.push_back({.code = Code::jump_if_false});
  if (!write(expression, node.operands[1], depth)) {
    return false;
  }
  const std::size_t to_end = code_.size();
  code_.push_back({.code = Code::jump});
  code_[to_other].target = static_cast<std::uint32_t>(code_.size());
  if (!write(expression, node.operands[2], depth)) {
    return false;
  }
  code_[to_end].target = static_cast<std::uint32_t>(code_.size());
  return true;
}

std::optional<long long> IntegerProgram::run(std::span<const Value> table) const {
  std::array<long long, kMostDepth + 1> stack;  // NOLINT: what is read was written.
  std::size_t top = 0;                          // The place behind it.
  for (std::size_t at = 0; at < code_.size(); ++at) {
    const Instruction& one = code_[at];
    switch (one.code) {
      case Code::constant:
        stack[top++] = one.value;
        break;
      case Code::name:
        if (!table[one.target].is_integral()) {
          return std::nullopt;
        }
        stack[top++] = table[one.target].integer;
        break;
      case Code::binary:
        --top;
        if (!computed(one.op, stack[top - 1], stack[top], stack[top - 1])) {
          return std::nullopt;
        }
        break;
      case Code::div_ceil:
        --top;
        if (!divided_up(stack[top - 1], stack[top], stack[top - 1])) {
          return std::nullopt;
        }
        break;
      case Code::negate:
        if (__builtin_sub_overflow(0LL, stack[top - 1], &stack[top - 1])) {
          return std::nullopt;
        }
        break;
      case Code::logical_not:
        stack[top - 1] = stack[top - 1] == 0 ? 1 : 0;
        break;
      case Code::truth:
        stack[top - 1] = stack[top - 1] != 0 ? 1 : 0;
        break;
      case Code::keep_if_false:
      case Code::keep_if_true:
        if ((stack[top - 1] != 0) == (one.code == Code::keep_if_true)) {
          at = one.target - std::size_t{1};
        } else {
          --top;
        }
        break;
      case Code::jump_if_false:
        if (stack[--top] == 0) {
          at = one.target - std::size_t{1};
        }
        break;
      case Code::jump:
        at = one.target - std::size_t{1};
        break;
    }
  }
  return stack[0];
}

}  // namespace swr::kernel_spec
