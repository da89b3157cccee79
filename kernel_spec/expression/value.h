// SPDX-License-Identifier: MIT
// What expressions of kernel specs compute with: whole numbers, real numbers, truth values, text
// and lists, as Python has them.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr::kernel_spec {

enum class ValueKind : unsigned char { truth, integer, real, text, list };

/// Copies cost 16 bytes. Text and lists lie in a ValueHeap, which must outlive the value.
struct Value {
  ValueKind kind = ValueKind::integer;
  union {
    long long integer = 0;  ///< Of truth as well: 0 or 1.
    double real;
    const std::string* text;
    const std::vector<Value>* list;
  };

  static Value of(bool truth);
  static Value of(long long integer);
  static Value of(double real);

  bool is_integral() const { return kind <= ValueKind::integer; }
  bool is_number() const { return kind <= ValueKind::real; }
};

/// What all evaluations of a spec may take together. Each gives some back, so that ordinary
/// expressions may be computed for any number of points. Thread-safe.
class StepBudget {
 public:
  static constexpr long long kMostSteps = 400'000'000;
  static constexpr long long kFreeSteps = 1'000;  ///< Of each evaluation.

  void take(long long steps);
  bool is_spent() const { return taken_ > kMostSteps; }

 private:
  std::atomic<long long> taken_{0};
};

/// Keeps text and lists; bounded. Not thread-safe.
class ValueHeap {
 public:
  /// From now on, evaluations that use this heap take their steps from there.
  void draw_on(std::shared_ptr<StepBudget> budget) { budget_ = std::move(budget); }
  bool has_spent_budget() const { return budget_ && budget_->is_spent(); }
  /// Throws: Error{invalid_argument} where it is spent.
  void require_budget() const;
  void take_steps(long long steps) const {
    if (budget_) {
      budget_->take(steps);
    }
  }

  /// Of all lists together.
  static constexpr std::size_t kMostItems = 1'000'000;
  /// Of all texts together.
  static constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;

  // Throw: Error{invalid_argument} when there are too many.
  Value keep(std::string text);
  Value keep(std::vector<Value> list);
  /// Before a list of so many items is made.
  void require_room(unsigned long long items) const;
  void clear();
  bool is_empty() const { return texts_.empty() && lists_.empty(); }

 private:
  // Lists, which allocate nothing where they are empty: most points keep nothing.
  std::list<std::string> texts_;
  std::list<std::vector<Value>> lists_;
  std::size_t items_ = 0;
  std::size_t text_bytes_ = 0;
  std::shared_ptr<StepBudget> budget_;
};

/// The value of a parameter's text: a number, true or false, else the text itself.
Value parameter_value(const std::string& text, ValueHeap& heap);

/// A copy whose text and lists lie in `heap`.
Value copied_to(ValueHeap& heap, const Value& value);

/// "64", "0.5", "True", the text itself, "[1, 2]".
std::string to_string(const Value& value);

/// "a whole number", for error messages.
std::string_view kind_name(ValueKind kind);

inline Value Value::of(bool truth) {
  Value value;
  value.kind = ValueKind::truth;
  value.integer = truth ? 1 : 0;
  return value;
}

inline Value Value::of(long long integer) {
  Value value;
  value.integer = integer;
  return value;
}

inline Value Value::of(double real) {
  Value value;
  value.kind = ValueKind::real;
  value.real = real;
  return value;
}

}  // namespace swr::kernel_spec
