// SPDX-License-Identifier: MIT
// What a plan is at a point of its space: whether it is allowed, sizes of arguments and launches.
#include "core/number_text.h"
#include "core/sha256.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr long long kMostElements = 1LL << 33;

long long whole(const BoundExpression& expression, const Point& point, const Place& where) {
  const Value value =
      at_place(where, [&] { return expression.evaluate_number(point.table, point.heap); });
  if (value.is_integral()) {
    return value.integer;
  }
  constexpr double kLargest = 9e15;
  if (value.kind == ValueKind::real && std::floor(value.real) == value.real &&
      std::abs(value.real) < kLargest) {
    return static_cast<long long>(value.real);
  }
  refuse_spec(where, "it is " + to_string(value) + ", and must be a whole number");
}

double real(const std::optional<BoundExpression>& expression, const Point& point,
            const std::string& where) {
  if (!expression) {
    return 0.0;
  }
  const Value value =
      at_place(where, [&] { return expression->evaluate(point.table, point.heap); });
  const double number = value.is_integral() ? static_cast<double>(value.integer) : value.real;
  if (!value.is_number() || !std::isfinite(number) || number < 0) {
    refuse_spec(where, "it is " + to_string(value) + ", and must be a number that is not negative");
  }
  return number;
}

}  // namespace

void KernelPlan::fill(Point& point, std::span<const int> sizes, std::span<const int> choice) const {
  point.heap.clear();
  point.heap.draw_on(budget_);
  point.table.assign(names_.size(), Value::of(0LL));
  std::size_t at = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    point.table[at++] = values_[i][static_cast<std::size_t>(choice[i])];
  }
  for (const int size : sizes) {
    point.table[at++] = Value::of(static_cast<long long>(size));
  }
  for (const auto& [name, items] : lists_) {
    std::vector<Value> values;
    for (const BoundExpression& item : items) {
      values.push_back(
          at_place("list " + name, [&] { return item.evaluate(point.table, point.heap); }));
    }
    point.table[at++] = point.heap.keep(std::move(values));
  }
}

std::vector<int> KernelPlan::usual_choice() const {
  std::vector<int> choice;
  for (const KernelParameter& parameter : spec_.parameters) {
    const auto found = parameter.usual ? std::ranges::find(parameter.values, *parameter.usual)
                                       : parameter.values.begin();
    choice.push_back(
        found == parameter.values.end() ? 0 : static_cast<int>(found - parameter.values.begin()));
  }
  return choice;
}

std::vector<int> KernelPlan::reference_choice() const {
  std::vector<int> choice = usual_choice();
  for (const auto& [name, value] : spec_.reference_parameters) {
    const auto parameter = std::ranges::find(spec_.parameters, name, &KernelParameter::name);
    if (parameter == spec_.parameters.end()) {
      refuse_spec("reference",
                  "there is no parameter '" + name + "'" + advice_for_unknown(name, names_));
    }
    const auto found = std::ranges::find(parameter->values, value);
    if (found == parameter->values.end()) {
      refuse_spec("reference", "parameter " + name + " has no value " + value);
    }
    choice[static_cast<std::size_t>(parameter - spec_.parameters.begin())] =
        static_cast<int>(found - parameter->values.begin());
  }
  return choice;
}

std::optional<KernelPlan::Broken> KernelPlan::broken(const Point& point) const {
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    try {
      if (!is_true(constraints_[i].evaluate_number(point.table, point.heap))) {
        return Broken{i, "it does not hold"};
      }
    } catch (const Error& error) {
      point.heap.require_budget();
      return Broken{i, error.what()};
    }
  }
  return std::nullopt;
}

Space KernelPlan::space(std::span<const int> sizes,
                        const std::map<std::size_t, std::vector<int>>& places) const {
  Point point;
  fill(point, sizes, usual_choice());
  std::vector<SpaceAxis> axes;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    SpaceAxis& axis = axes.emplace_back(SpaceAxis{spec_.parameters[i].name, {}});
    const auto wanted = places.find(i);
    if (wanted == places.end()) {
      axis.values = values_[i];
      continue;
    }
    for (const int place : wanted->second) {
      axis.values.push_back(values_[i][static_cast<std::size_t>(place)]);
    }
  }
  std::vector<NamedValue> constants;
  for (std::size_t i = values_.size(); i < names_.size(); ++i) {
    constants.push_back({names_[i], point.table[i]});
  }
  const Dialect dialect = spec_.dialect == SpecDialect::c ? Dialect::c : Dialect::python;
  std::vector<SpaceCondition> conditions;
  for (const std::string& text : spec_.constraints) {
    conditions.push_back({text, Expression(text, dialect)});
  }
  return Space(std::move(axes), std::move(conditions), constants, {.budget = budget_});
}

PlannedLaunch KernelPlan::launch(const PlannedStep& step, const Point& point) const {
  PlannedLaunch launch;
  const auto place = [&step](std::string_view part) {
    return Place{"kernel ", step.spec.entry, part};
  };
  constexpr long long kMostTimes = 1'000'000;
  if (step.when) {
    const Value when = at_place(
        place("when"), [&] { return step.when->evaluate_number(point.table, point.heap); });
    if (!is_true(when)) {
      launch.times = 0;
      return launch;
    }
  }
  const auto take = [&](const std::vector<BoundExpression>& from, std::array<unsigned, 3>& to,
                        std::string_view what) {
    constexpr long long kMost = 2147483647;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const long long count = whole(from[i], point, place(what));
      if (count < 1 || count > kMost) {
        refuse_spec(place(what), "'" + from[i].expression().text() + "' is " +
                                     std::to_string(count) + ", and must be 1 to 2147483647");
      }
      to[i] = static_cast<unsigned>(count);
    }
  };
  take(step.block, launch.block, "block");
  take(step.grid, launch.grid, "grid");
  const long long shared = whole(step.shared_bytes, point, place("shared_bytes"));
  const long long times = whole(step.repeat, point, place("repeat"));
  if (shared < 0 || shared > std::numeric_limits<int>::max()) {
    refuse_spec(place("shared_bytes"), "it is " + std::to_string(shared));
  }
  if (times < 0 || times > kMostTimes) {
    refuse_spec(place("repeat"), "it is " + std::to_string(times) + ", and must be 0 to 1000000");
  }
  launch.shared_bytes = static_cast<int>(shared);
  launch.times = static_cast<int>(times);
  return launch;
}

std::array<std::size_t, 3> KernelPlan::extent(const PlannedArgument& argument,
                                              const Point& point) const {
  // Of arrays of one, two and three sides on every chip since sm_60.
  static constexpr long long kMost[3][3] = {
      {131072, 0, 0}, {131072, 65536, 0}, {16384, 16384, 16384}};
  std::array<std::size_t, 3> sides{};
  for (std::size_t i = 0; i < argument.extent.size(); ++i) {
    const Place where{"argument ", argument.spec.name, "extent"};
    const long long side = whole(argument.extent[i], point, where);
    const long long most = kMost[argument.extent.size() - 1][i];
    if (side < 1 || side > most) {
      refuse_spec(where, "a side is " + std::to_string(side) + ", and must be 1 to " +
                             std::to_string(most));
    }
    sides[i] = static_cast<std::size_t>(side);
  }
  return sides;
}

long long KernelPlan::elements(const PlannedArgument& argument, const Point& point) const {
  if (!argument.extent.empty()) {
    long long count = 1;
    for (const std::size_t side : extent(argument, point)) {
      count *= side == 0 ? 1 : static_cast<long long>(side);
    }
    return count;
  }
  const Place where{"argument ", argument.spec.name, "size"};
  const long long count = whole(*argument.size, point, where);
  if (count < 1 || count > kMostElements) {
    refuse_spec(where, "it is " + std::to_string(count) + ", and must be 1 to 2^33");
  }
  return count;
}

double KernelPlan::flops(const Point& point) const { return real(flops_, point, "flops"); }
double KernelPlan::bytes(const Point& point) const { return real(bytes_, point, "bytes"); }

// What tells plans apart in databases.

/// Everything but what changes no result: words for people, usual sizes, the deadline. Databases
/// hold it beside the spec, so what comes later is added where a spec has it alone.
std::string KernelPlan::digest_of_all() const {
  std::string all;
  const auto add = [&all](const std::string& field) {
    all += std::to_string(field.size()) + ":" + field;
  };
  const auto add_all = [&](const std::vector<std::string>& fields) {
    add(std::to_string(fields.size()));
    std::ranges::for_each(fields, add);
  };
  const auto add_headers = [&](const std::map<std::string, std::string>& headers) {
    for (const auto& [name, text] : headers) {
      add_all({name, text});
    }
  };
  const auto digest_of = [this](const std::string& data_file) {
    const auto known = files_.data_digests.find(data_file);
    return known == files_.data_digests.end() ? std::string() : known->second;
  };
  const auto add_steps = [&](const std::vector<KernelStep>& steps) {
    for (const KernelStep& step : steps) {
      add_all({step.entry, step.shared_bytes, step.when, step.repeat});
      add_all(step.block);
      add_all(step.grid);
      add_all(step.arguments);
    }
  };
  add_all({spec_.name, spec_.source, files_.reference_source,
           spec_.dialect == SpecDialect::c ? "c" : "python", spec_.flops, spec_.bytes});
  add_headers(files_.headers);
  add_headers(files_.reference_headers);
  for (const KernelSize& size : spec_.sizes) {
    add(size.name);
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    add_all({parameter.name, std::to_string(static_cast<int>(parameter.use)),
             parameter.usual.value_or("")});
    add_all(parameter.values);
  }
  add_all(spec_.constraints);
  for (const auto& [name, text] : spec_.defines) {
    add_all({name, text});
  }
  for (const auto& [name, items] : spec_.lists) {
    add(name);
    add_all(items);
  }
  add_all(spec_.options);
  for (const PlannedArgument& argument : arguments_) {
    const KernelArgument& one = argument.spec;
    add_all({one.name, one.type, one.size.value_or(""), one.is_output ? "output" : "",
             one.is_constant ? "constant" : "", std::to_string(static_cast<int>(one.fill)),
             one.value, fixed_text(one.low, 6), fixed_text(one.high, 6), std::to_string(one.seed),
             digest_of(one.file), digest_of(one.expected_file),
             fixed_text(argument.absolute * 1e12, 6), fixed_text(argument.relative * 1e12, 6)});
    if (one.texture) {
      add_all(one.texture->extent);
      add_all({"texture", std::to_string(static_cast<int>(one.texture->address)),
               one.texture->interpolates ? "linear" : "", one.texture->is_normalized ? "unit" : "",
               one.texture->reads_fractions ? "fractions" : ""});
    }
  }
  add_steps(spec_.steps);
  add_steps(spec_.reference);
  for (const auto& [name, value] : spec_.reference_parameters) {
    add_all({name, value});
  }
  return sha256_hex(all);
}

}  // namespace swr::kernel_spec
