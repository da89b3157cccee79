// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/spec_object.h"

#include "core/metrics.h"
#include "core/reject.h"
#include "kernel_spec/expression/expression.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace swr::kernel_spec {
namespace {

std::string text_of(const Value& value) {
  return value.kind == ValueKind::truth ? (value.integer != 0 ? "true" : "false")
                                        : to_string(value);
}

}  // namespace

void refuse_spec(const std::string& where, const std::string& what) { reject(where + ": " + what); }

SpecObject::SpecObject(const Json& json, std::string where, std::initializer_list<const char*> keys)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    refuse_spec(where_, "it must be an object");
  }
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      refuse_spec(where_, "unknown key '" + key + "'" + advice_for_unknown(key, known));
    }
  }
}

bool SpecObject::has(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

std::string SpecObject::text(const char* key) const {
  if (!has(key)) {
    refuse_spec(where_, "it needs '" + std::string(key) + "'");
  }
  if (!at(key).is_string()) {
    refuse_spec(place(key), "it must be a text");
  }
  return at(key).get<std::string>();
}

std::string SpecObject::text_or(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

double SpecObject::number_or(const char* key, double otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  if (!at(key).is_number()) {
    refuse_spec(place(key), "it must be a number");
  }
  return at(key).get<double>();
}

long long SpecObject::integer_or(const char* key, long long otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  if (!at(key).is_number_integer()) {
    refuse_spec(place(key), "it must be a whole number");
  }
  return at(key).get<long long>();
}

bool SpecObject::flag_or(const char* key, bool otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  if (!at(key).is_boolean()) {
    refuse_spec(place(key), "it must be true or false");
  }
  return at(key).get<bool>();
}

std::string SpecObject::expression_or(const char* key, const std::string& otherwise) const {
  return has(key) ? expression_text(at(key), place(key)) : otherwise;
}

std::vector<std::string> SpecObject::expressions(const char* key) const {
  std::vector<std::string> all;
  if (!has(key)) {
    return all;
  }
  if (!at(key).is_array()) {
    return {expression_text(at(key), place(key))};
  }
  for (const Json& item : at(key)) {
    all.push_back(expression_text(item, place(key)));
  }
  return all;
}

std::vector<std::string> SpecObject::texts(const char* key) const {
  std::vector<std::string> all;
  if (!has(key)) {
    return all;
  }
  if (at(key).is_string()) {
    return {at(key).get<std::string>()};
  }
  if (!at(key).is_array()) {
    refuse_spec(place(key), "it must be a list of texts");
  }
  for (const Json& item : at(key)) {
    if (!item.is_string()) {
      refuse_spec(place(key), "it must be a list of texts");
    }
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::string expression_text(const Json& json, const std::string& where) {
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_number() || json.is_boolean()) {
    return json.dump();
  }
  refuse_spec(where, "it must be a number, true, false or an expression as text");
}

std::string value_text(const Json& json, const std::string& where) {
  if (!json.is_primitive() || json.is_null()) {
    refuse_spec(where, "a value must be a number, a text, true or false");
  }
  return expression_text(json, where);
}

void add_size(KernelSpec& kernel, const std::string& name, const std::string& number,
              const std::string& where) {
  long long value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || *end != '\0' || value < 1) {
    refuse_spec(where,
                "size " + name + " must be a whole number above 0 and below 2^63, not " + number);
  }
  if (value <= std::numeric_limits<int>::max()) {
    kernel.sizes.push_back({name, static_cast<int>(value)});
    return;
  }
  kernel.parameters.push_back({name, {number}, {}, ParameterUse::launch});
  kernel.notes.push_back("size " + name + " is " + number +
                         " for all problems: those hold sizes up to 2147483647");
}

std::vector<std::string> parameter_values(const Json& json, const std::string& where) {
  std::vector<std::string> values;
  if (json.is_array()) {
    for (const Json& item : json) {
      values.push_back(value_text(item, where));
    }
    return values;
  }
  if (!json.is_string()) {
    refuse_spec(where, "it must be a list, or an expression that gives one");
  }
  try {
    ValueHeap heap;
    const Expression expression(json.get<std::string>(), Dialect::python);
    const BoundExpression bound(expression, {});
    const Value list = bound.evaluate({}, heap);
    if (list.kind != ValueKind::list) {
      refuse_spec(where, "'" + expression.text() + "' is no list");
    }
    for (const Value& item : *list.list) {
      if (item.kind == ValueKind::list) {
        refuse_spec(where, "a value must be a number, a text, true or false, not a list");
      }
      values.push_back(text_of(item));
    }
  } catch (const Error& error) {
    const std::string reason = error.what();
    refuse_spec(where, reason.starts_with(where) ? reason.substr(where.size() + 2) : reason);
  }
  return values;
}

void read_objective(const SpecObject& object, KernelSpec& kernel) {
  const std::string text = object.text_or("objective", "");
  const bool is_to_be_large = object.flag_or("objective_higher_is_better", false);
  if (text.empty()) {
    if (is_to_be_large) {
      refuse_spec(object.place("objective_higher_is_better"), "it needs 'objective'");
    }
    return;
  }
  try {
    kernel.objective = kept_objective(text, is_to_be_large);
  } catch (const Error& error) {
    refuse_spec(object.where(), error.what());
  }
}

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
  reject("objective '" + text + "': " + why);
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
  reject("it is no objective and no metric" + advice_for_unknown(expression.text(), known));
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
    reject("it must be a number, not " + std::string(kind_name(value.kind)));
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
