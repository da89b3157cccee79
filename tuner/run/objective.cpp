// SPDX-License-Identifier: MIT
#include "tuner/run/objective.h"

#include "core/metrics.h"
#include "core/number_text.h"
#include "kernel_spec/spec/spec_object.h"
#include "report/explain/analysis.h"
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

using kernel_spec::Value;

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

static_assert(std::ranges::equal(kFurther, kFurtherMetricNames, {}, &FurtherMetric::name),
              "core/metrics.h names every further metric, in this order");

constexpr std::string_view kTimeMetric = "time_us";

std::optional<double> metric_at(std::size_t place, const Subject& subject, double time_us) {
  const auto declared_metrics = metrics();
  if (place >= declared_metrics.size()) {
    return kFurther[place - declared_metrics.size()].value(subject);
  }
  const std::string_view key = declared_metrics[place].key;
  return key == kTimeMetric ? std::optional(time_us) : declared(subject, key);
}

}  // namespace

Objective::Objective(std::string text)
    : text_(std::move(text)), expression_(kernel_spec::bound_objective(text_)) {}

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
  const double value = kernel_spec::objective_value(text_, expression_, table);
  if (!(value > 0) || !std::isfinite(value)) {
    throw Error(ErrorCode::invalid_argument,
                "objective '" + text_ + "' is " + significant_text(value, 4) + " for " +
                    to_key(result.variant) +
                    ", and only values above 0 can be compared by their ratio; where more is "
                    "better, write 1 / (...)");
  }
  return value;
}

std::vector<std::string> Objective::metric_names() { return kernel_spec::objective_names(); }

}  // namespace swr
