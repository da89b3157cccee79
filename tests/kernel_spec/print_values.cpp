// SPDX-License-Identifier: MIT
// Computes one expression per line of standard input and prints a line for each: kind and value, or
// "error" and why. compare_with_python reads them.
#include "kernel_spec/expression/expression.h"
#include <swr/error.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace swr::kernel_spec;

/// Real numbers bit by bit.
std::string exact_text(const Value& value) {
  if (value.kind == ValueKind::real) {
    char text[64];
    std::snprintf(text, sizeof text, "%a", value.real);
    return std::string("real ") + text;
  }
  if (value.kind == ValueKind::list) {
    std::string text = "list";
    for (const Value& item : *value.list) {
      text += " (" + exact_text(item) + ")";
    }
    return text;
  }
  const char* const kind = value.kind == ValueKind::truth     ? "truth "
                           : value.kind == ValueKind::integer ? "integer "
                                                              : "text ";
  return kind + to_string(value);
}

/// The names that the corpus uses.
const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames{"a", "b", "x", "items"};
  return kNames;
}

/// A program for whole numbers has the same value, where it has one.
std::string checked(const BoundExpression& expression, const std::vector<Value>& table,
                    ValueHeap& heap) {
  const Value value = expression.evaluate(table, heap);
  const Value number = expression.evaluate_number(table, heap);
  const bool is_equal = value.is_integral()
                            ? number.is_integral() && number.integer == value.integer
                            : exact_text(number) == exact_text(value);
  return exact_text(value) + (is_equal ? "" : " but " + exact_text(number) + " as a number");
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    ValueHeap heap;
    const std::vector<Value> table{
        Value::of(12LL), Value::of(-5LL), Value::of(0.75),
        heap.keep(std::vector{Value::of(4LL), Value::of(1LL), Value::of(7LL)})};
    try {
      const Expression expression(line, Dialect::python);
      std::cout << checked(BoundExpression(expression, names()), table, heap) << "\n";
    } catch (const swr::Error& error) {
      std::cout << "error " << error.what() << "\n";
    }
  }
  return 0;
}
