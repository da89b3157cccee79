// SPDX-License-Identifier: MIT
#include "tuner/run/objective.h"

#include "core/number_text.h"
#include "report/explain/analysis.h"
#include "report/explain/metrics.h"
#include <swr/error.h>
#include <swr/kernel.h>
#include <swr/store.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

namespace swr {
namespace {

using kernel_spec::BoundExpression;
using kernel_spec::Dialect;
using kernel_spec::Expression;
using kernel_spec::Value;
using kernel_spec::ValueHeap;

/// What an objective is about.
struct Subject {
  const Problem& problem;
  const DeviceInfo& device;
  const VariantResult& result;
};

/// Metrics beside those of reports, and other names of some.
struct FurtherMetric {
  std::string_view name;
  std::optional<double> (*value)(const Subject&);
};

std::optional<double> declared(const Subject& subject, std::string_view key) {
  const auto metric = std::ranges::find(metrics(), key, &Metric::key);
  const auto value = metric->value(subject.problem, subject.result);
  return value ? std::optional(
                     std::visit([](auto number) { return static_cast<double>(number); }, *value))
               : std::nullopt;
}

double occupancy_of(const Subject& subject) {
  return static_cast<double>(subject.result.ctas_per_sm) *
         threads_per_cta(subject.problem, subject.result.variant) /
         std::max(1, subject.device.max_threads_per_sm);
}

constexpr std::array kFurther{
    FurtherMetric{"registers",
                  [](const Subject& subject) { return declared(subject, "registers_per_thread"); }},
    FurtherMetric{"l2_misses",
                  [](const Subject& subject) { return declared(subject, "l2_misses_sectors"); }},
    FurtherMetric{"dram_bytes",
                  [](const Subject& subject) {
                    const auto bytes = dram_bytes(subject.result);
                    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
                  }},
    FurtherMetric{"occupancy",
                  [](const Subject& subject) { return std::optional(occupancy_of(subject)); }}};

constexpr std::string_view kTimeMetric = "time_us";

std::string expression_of(const std::string& text) {
  if (text == kTimeObjective) {
    return std::string(kTimeMetric);
  }
  return text == "energy" ? "energy_mj" : text == "edp" ? "energy_mj * time_us" : text;
}

BoundExpression bound(const std::string& text) {
  const std::vector<std::string> names = Objective::metric_names();
  try {
    BoundExpression expression(Expression(expression_of(text), Dialect::python), names);
    if (expression.places().empty()) {
      throw Error(ErrorCode::invalid_argument, "it reads no metric, so all variants are equal");
    }
    return expression;
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, "objective '" + text + "': " + error.what());
  }
}

double number(const Value& value) {
  if (!value.is_number()) {
    throw Error(ErrorCode::invalid_argument,
                "it must be a number, not " + std::string(kind_name(value.kind)));
  }
  return value.is_integral() ? static_cast<double>(value.integer) : value.real;
}

double computed(const std::string& text, const BoundExpression& expression,
                const std::vector<Value>& table) {
  ValueHeap heap;
  try {
    return number(expression.evaluate(table, heap));
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, "objective '" + text + "': " + error.what());
  }
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

std::optional<double> metric_at(std::size_t place, const Subject& subject, double time_us) {
  const auto declared_metrics = metrics();
  if (place >= declared_metrics.size()) {
    return kFurther[place - declared_metrics.size()].value(subject);
  }
  const std::string_view key = declared_metrics[place].key;
  return key == kTimeMetric ? std::optional(time_us) : declared(subject, key);
}

}  // namespace

Objective::Objective(std::string text) : text_(std::move(text)), expression_(bound(text_)) {
  computed(text_, expression_, made_up_metrics(metric_names().size()));
}

bool Objective::is_time() const { return text_ == kTimeObjective; }

bool Objective::needs_energy() const {
  const auto declared_metrics = metrics();
  return std::ranges::any_of(expression_.places(), [&](std::size_t place) {
    return place < declared_metrics.size() && declared_metrics[place].is_of_energy;
  });
}

std::optional<double> Objective::value(const Problem& problem, const DeviceInfo& device,
                                       const VariantResult& result, double time_us) const {
  const Subject subject{problem, device, result};
  std::vector<Value> table(metric_names().size());
  for (const std::size_t place : expression_.places()) {
    const auto metric = metric_at(place, subject, time_us);
    if (!metric) {
      return std::nullopt;
    }
    table[place] = Value::of(*metric);
  }
  const double value = computed(text_, expression_, table);
  if (!(value > 0) || !std::isfinite(value)) {
    throw Error(ErrorCode::invalid_argument,
                "objective '" + text_ + "' is " + significant_text(value, 4) + " for " +
                    to_key(result.variant) +
                    ", and only values above 0 can be compared by their ratio; where more is "
                    "better, write 1 / (...)");
  }
  return value;
}

std::vector<std::string> Objective::metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) {
    names.emplace_back(metric.key);
  }
  for (const FurtherMetric& metric : kFurther) {
    names.emplace_back(metric.name);
  }
  return names;
}

}  // namespace swr
