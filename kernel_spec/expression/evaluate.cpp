// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "kernel_spec/expression/expression.h"
#include <swr/error.h>

#include <algorithm>
#include <utility>

namespace swr::kernel_spec {

/// One computation of an expression.
class Evaluation {
 public:
  Evaluation(const Expression& expression, std::span<const Value> table, ValueHeap& heap)
      : expression_(expression), table_(table), heap_(heap), locals_(expression.locals_) {}
  ~Evaluation() { heap_.take_steps(steps_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  Value result() {
    try {
      heap_.require_budget();
      return compute(expression_.root_);
    } catch (const Error& error) {
      reject_expression(expression_.text_, expression_.nodes_[last_].column, error.what());
    }
  }

 private:
  using Kind = ExpressionNode::Kind;

  Value compute(std::uint32_t index) {
    const ExpressionNode& node = expression_.nodes_[index];
    count();
    switch (node.kind) {
      case Kind::constant:
        return node.value;
      case Kind::name:
        return table_[node.place];
      case Kind::local:
        return locals_[node.place];
      case Kind::binary: {
        const Value a = compute(node.operands[0]);
        const Value b = compute(node.operands[1]);
        last_ = index;
        return apply(node.op, a, b, heap_);
      }
      case Kind::logical_and: {
        const Value a = compute(node.operands[0]);
        return is_true(a) ? compute(node.operands[1]) : a;
      }
      case Kind::logical_or: {
        const Value a = compute(node.operands[0]);
        return is_true(a) ? a : compute(node.operands[1]);
      }
      case Kind::both_true:
        return Value::of(is_true(compute(node.operands[0])) && is_true(compute(node.operands[1])));
      case Kind::either_true:
        return Value::of(is_true(compute(node.operands[0])) || is_true(compute(node.operands[1])));
      case Kind::logical_not:
        return Value::of(!is_true(compute(node.operands[0])));
      case Kind::conditional:
        return compute(node.operands[is_true(compute(node.operands[0])) ? 1 : 2]);
      default:
        return compute_rarer(index);
    }
  }

  Value compute_rarer(std::uint32_t index) {
    const ExpressionNode& node = expression_.nodes_[index];
    if (node.kind == Kind::comprehension) {
      return comprehension(node, index);
    }
    if (node.kind == Kind::list || node.kind == Kind::call) {
      std::vector<Value> operands;
      for (std::uint32_t i = 0; i < node.operands[1]; ++i) {
        operands.push_back(compute(expression_.operand_lists_[node.operands[0] + i]));
      }
      last_ = index;
      return node.kind == Kind::list ? heap_.keep(std::move(operands))
                                     : call(node.function, operands, heap_);
    }
    const Value a = compute(node.operands[0]);
    if (node.kind == Kind::item) {
      const Value place = compute(node.operands[1]);
      last_ = index;
      return item_at(a, place, heap_);
    }
    last_ = index;
    return node.kind == Kind::negation ? negated(a) : unchanged_number(a);
  }

  Value comprehension(const ExpressionNode& node, std::uint32_t index) {
    const Value source = compute(node.operands[1]);
    last_ = index;
    if (source.kind != ValueKind::list) {
      throw Error(ErrorCode::invalid_argument,
                  "'for' takes a list, not " + std::string(kind_name(source.kind)));
    }
    // The rest of what any() and all() take is not computed once they are decided.
    const bool is_any = node.function == Function::any;
    const bool is_all = node.function == Function::all;
    std::vector<Value> items;
    for (const Value& item : *source.list) {
      locals_[node.place] = item;
      if (!is_true(compute(node.operands[2]))) {
        continue;
      }
      items.push_back(compute(node.operands[0]));
      if ((is_any || is_all) && is_true(items.back()) == is_any) {
        return Value::of(is_any);
      }
    }
    return is_any || is_all ? Value::of(is_all) : heap_.keep(std::move(items));
  }

  void count() {
    if (++steps_ > Expression::kMostSteps) {
      throw Error(ErrorCode::invalid_argument,
                  "it takes more than " + std::to_string(Expression::kMostSteps) + " steps");
    }
  }

  const Expression& expression_;
  std::span<const Value> table_;
  ValueHeap& heap_;
  std::vector<Value> locals_;
  long long steps_ = 0;
  std::uint32_t last_ = 0;  ///< Where an error belongs.
};

Value Expression::evaluate(std::span<const Value> values, ValueHeap& heap) const {
  return Evaluation(*this, values, heap).result();
}

BoundExpression::BoundExpression(const Expression& expression, std::span<const std::string> known)
    : expression_(expression) {
  for (const std::string& name : expression.names()) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      throw Error(ErrorCode::invalid_argument, "expression '" + expression.text() +
                                                   "' uses the unknown name '" + name + "'" +
                                                   advice_for_unknown(name, known));
    }
    places_.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  for (ExpressionNode& node : expression_.nodes_) {
    if (node.kind == ExpressionNode::Kind::name) {
      node.place = static_cast<std::uint32_t>(places_[node.place]);
    }
  }
  integers_.emplace(expression_);
}

std::string advice_for_unknown(std::string_view name, std::span<const std::string> known) {
  if (const auto nearest = nearest_word(name, known)) {
    return "; did you mean '" + *nearest + "'?";
  }
  std::string all;
  for (const std::string& one : known) {
    all += (all.empty() ? "" : ", ") + one;
  }
  return all.empty() ? "; no names are known here" : "; known are " + all;
}

}  // namespace swr::kernel_spec
