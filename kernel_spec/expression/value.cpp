// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/value.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace swr::kernel_spec {
namespace {

[[noreturn]] void reject_size(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "an expression makes " + what);
}

/// The shortest text that reads back as the same number, as Python writes it.
std::string real_text(double real) {
  if (!std::isfinite(real)) {
    return std::isnan(real) ? "nan" : real < 0 ? "-inf" : "inf";
  }
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), real);
  std::string text(buffer.data(), end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string list_text(const std::vector<Value>& list) {
  std::string text = "[";
  for (const Value& item : list) {
    text += (text.size() == 1 ? "" : ", ") + to_string(item);
  }
  return text + "]";
}

}  // namespace

void StepBudget::take(long long steps) {
  long long taken = taken_;
  while (!taken_.compare_exchange_weak(taken, std::max(0LL, taken + steps - kFreeSteps))) {
  }
}

void ValueHeap::require_budget() const {
  if (has_spent_budget()) {
    throw Error(ErrorCode::invalid_argument,
                "the expressions of this spec take more than " +
                    std::to_string(StepBudget::kMostSteps) +
                    " steps over its points; write them without long lists");
  }
}

Value ValueHeap::keep(std::string text) {
  text_bytes_ += text.size();
  if (text_bytes_ > kMostTextBytes) {
    reject_size("more than " + std::to_string(kMostTextBytes) + " bytes of text");
  }
  Value value;
  value.kind = ValueKind::text;
  value.text = &texts_.emplace_back(std::move(text));
  return value;
}

Value ValueHeap::keep(std::vector<Value> list) {
  require_room(list.size());
  items_ += list.size();
  Value value;
  value.kind = ValueKind::list;
  value.list = &lists_.emplace_back(std::move(list));
  return value;
}

void ValueHeap::require_room(unsigned long long items) const {
  if (items > kMostItems - items_) {
    reject_size("lists of more than " + std::to_string(kMostItems) + " items");
  }
}

void ValueHeap::clear() {
  texts_.clear();
  lists_.clear();
  items_ = 0;
  text_bytes_ = 0;
}

Value parameter_value(const std::string& text, ValueHeap& heap) {
  long long integer = 0;
  const char* const last = text.data() + text.size();
  if (const auto [end, error] = std::from_chars(text.data(), last, integer);
      error == std::errc{} && end == last) {
    return Value::of(integer);
  }
  double number = 0.0;
  if (const auto [end, error] = std::from_chars(text.data(), last, number);
      error == std::errc{} && end == last && std::isfinite(number)) {
    return Value::of(number);
  }
  if (text == "true" || text == "false") {
    return Value::of(text == "true");
  }
  return heap.keep(text);
}

Value copied_to(ValueHeap& heap, const Value& value) {
  if (value.kind == ValueKind::text) {
    return heap.keep(*value.text);
  }
  if (value.kind != ValueKind::list) {
    return value;
  }
  std::vector<Value> items;
  for (const Value& item : *value.list) {
    items.push_back(copied_to(heap, item));
  }
  return heap.keep(std::move(items));
}

std::string to_string(const Value& value) {
  switch (value.kind) {
    case ValueKind::truth:
      return value.integer != 0 ? "True" : "False";
    case ValueKind::integer:
      return std::to_string(value.integer);
    case ValueKind::real:
      return real_text(value.real);
    case ValueKind::text:
      return *value.text;
    case ValueKind::list:
      return list_text(*value.list);
  }
  return "";
}

std::string_view kind_name(ValueKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"a truth value", "a whole number",
                                                   "a real number", "text", "a list"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace swr::kernel_spec
