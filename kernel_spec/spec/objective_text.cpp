// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/objective_text.h"

#include "core/metrics.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace swr::kernel_spec {
namespace {

struct ObjectiveWord {
  std::string_view word;
  const char* expression;
};
constexpr std::array kObjectiveWords{ObjectiveWord{"time", "time_us"},
                                     ObjectiveWord{"energy", "energy_mj"},
                                     ObjectiveWord{"edp", "energy_mj * time_us"}};

const ObjectiveWord* find_objective_word(std::string_view text) {
  const auto found = std::ranges::find(kObjectiveWords, text, &ObjectiveWord::word);
  return found == kObjectiveWords.end() ? nullptr : found;
}

[[noreturn]] void refuse_objective(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "objective '" + text + "': " + why);
}

Expression parsed_objective(const std::string& text) {
  const ObjectiveWord* const known = find_objective_word(text);
  return {known != nullptr ? known->expression : text, Dialect::python};
}

/// A single name may have been meant as a word as well as a metric.
void require_known_name(const Expression& expression, std::span<const std::string> metrics) {
  const bool is_one_name = expression.names() == std::vector{expression.text()};
  if (!is_one_name || std::ranges::find(metrics, expression.text()) != metrics.end()) {
    return;
  }
  std::vector<std::string> known;
  for (const ObjectiveWord& one : kObjectiveWords) {
    known.emplace_back(one.word);
  }
  known.insert(known.end(), metrics.begin(), metrics.end());
  throw Error(ErrorCode::invalid_argument,
              "it is no objective and no metric" + advice_for_unknown(expression.text(), known));
}

/// Numbers of which no two are equal, so that differences and quotients of metrics have a value.
std::vector<Value> made_up_metrics(std::size_t count) {
  constexpr double kFirst = 1013.7;
  constexpr double kStep = 17.9;
  std::vector<Value> table;
  for (std::size_t i = 0; i < count; ++i) {
    table.push_back(Value::of(kFirst + kStep * static_cast<double>(i)));
  }
  return table;
}

double number_of(const Value& value) {
  if (!value.is_number()) {
    throw Error(ErrorCode::invalid_argument,
                "it must be a number, not " + std::string(kind_name(value.kind)));
  }
  return value.is_integral() ? static_cast<double>(value.integer) : value.real;
}

}  // namespace

std::vector<std::string> objective_names() {
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) {
    names.emplace_back(metric.key);
  }
  names.insert(names.end(), kFurtherMetricNames.begin(), kFurtherMetricNames.end());
  return names;
}

BoundExpression bound_objective(const std::string& text) {
  const std::vector<std::string> names = objective_names();
  const auto bound = [&] {
    try {
      const Expression parsed = parsed_objective(text);
      require_known_name(parsed, names);
      return BoundExpression(parsed, names);
    } catch (const Error& error) {
      refuse_objective(text, error.what());
    }
  }();
  if (bound.places().empty()) {
    refuse_objective(text, "it reads no metric, so all variants are equal");
  }
  objective_value(text, bound, made_up_metrics(names.size()));
  return bound;
}

double objective_value(const std::string& text, const BoundExpression& expression,
                       std::span<const Value> table) {
  ValueHeap heap;
  try {
    return number_of(expression.evaluate(table, heap));
  } catch (const Error& error) {
    refuse_objective(text, error.what());
  }
}

std::string kept_objective(const std::string& text, bool is_to_be_large) {
  if (is_to_be_large && find_objective_word(text) != nullptr) {
    refuse_objective(text, "it is better small; objective_higher_is_better is for expressions");
  }
  const std::string kept = is_to_be_large ? "1 / (" + text + ")" : text;
  static_cast<void>(bound_objective(text));
  static_cast<void>(bound_objective(kept));
  return kept;
}

}  // namespace swr::kernel_spec
