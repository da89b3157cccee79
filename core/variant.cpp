// SPDX-License-Identifier: MIT
#include "core/axis_values.h"
#include "core/constraint_rules.h"
#include "core/field_builders.h"
#include "core/operation.h"
#include "core/reject.h"
#include <swr/constraints.h>
#include <swr/variant.h>

#include <algorithm>
#include <vector>

namespace swr {
namespace {

std::string no_axis_message(Family family, std::string_view axis) {
  return "family " + std::string(to_string(family)) + " has no axis " + std::string(axis);
}

}  // namespace

AxisValue Axis::get(const Variant& variant) const {
  const int value = read(variant.members());
  if (is_text()) {
    return std::string(spellings[static_cast<std::size_t>(value)]);
  }
  return static_cast<long long>(value);
}

void Axis::set(Variant& variant, const AxisValue& value) const {
  write(variant.members(), is_text() ? parse_enum<int>(spellings, to_string(value), name)
                                     : require_in_range(value, name, least, most));
}

Family family_of(const Variant& variant) {
  return static_cast<Family>(variant.operation().axes().front().read(variant.members()));
}

std::optional<Order> order_of(const Variant& variant) {
  const Axis* const axis = variant.operation().order_axis();
  if (axis == nullptr) {
    return std::nullopt;
  }
  // An operation may have further orders of its own.
  const auto order = static_cast<Order>(axis->read(variant.members()));
  return order <= Order::right_to_left ? std::optional(order) : std::nullopt;
}

void set_order(Variant& variant, Order order) {
  variant.operation().order_axis()->write(variant.members(), static_cast<int>(order));
}

std::span<const Axis> axes(const Operation& operation) { return operation.axes(); }

const Axis* find_axis(const Operation& operation, std::string_view name) {
  const auto all = operation.axes();
  const auto found = std::ranges::find(all, name, &Axis::name);
  return found == all.end() ? nullptr : &*found;
}

const Axis& axis_named(const Operation& operation, std::string_view name) {
  return *find_axis(operation, name);
}

Variant default_axes(const Operation& operation) { return operation.default_axes(); }

std::string to_key(const Variant& variant) {
  std::string key;
  for (const Axis& axis : variant.operation().axes()) {
    if (axis.belongs_to(family_of(variant))) {
      key += key.empty() ? "" : ",";
      key += std::string(axis.name) + "=" + to_string(axis.get(variant));
    }
  }
  return key;
}

Variant parse_variant(const Operation& operation, std::string_view key) {
  Variant variant = default_axes(operation);
  std::vector<const Axis*> named;
  while (!key.empty()) {
    const auto comma = key.find(',');
    const std::string_view part = key.substr(0, comma);
    key = comma == std::string_view::npos ? std::string_view{} : key.substr(comma + 1);
    const auto equals = part.find('=');
    const Axis* const axis = find_axis(operation, part.substr(0, equals));
    if (equals == std::string_view::npos || axis == nullptr) {
      reject("'" + std::string(part) + "' is no axis=value part of a variant of " +
             std::string(operation.name()));
    }
    axis->set(variant, std::string(part.substr(equals + 1)));
    named.push_back(axis);
  }
  for (const Axis* const axis : named) {
    if (!axis->belongs_to(family_of(variant))) {
      reject(no_axis_message(family_of(variant), axis->name));
    }
  }
  return variant;
}

std::string_view to_string(Family value) { return enum_text(kFamilies, value); }
std::string_view to_string(Order value) { return enum_text(kOrders, value); }
std::string_view to_string(Persistence value) { return enum_text(kPersistences, value); }

std::string to_string(const AxisValue& value) {
  if (const auto* integer = std::get_if<long long>(&value)) {
    return std::to_string(*integer);
  }
  return std::get<std::string>(value);
}

namespace {

DroppedVariant dropped(const Variant& variant, const ConstraintInfo& info, std::string reason) {
  return {variant, std::string(info.name), std::move(reason)};
}

}  // namespace

std::span<const ConstraintInfo> constraints(const Operation& operation) {
  return operation.constraints();
}

void require_same_operation(const Problem& problem, const Variant& variant) {
  if (&problem.operation() != &variant.operation()) {
    reject("a variant of " + std::string(variant.operation().name()) + " cannot compute " +
           to_string(problem));
  }
}

std::optional<DroppedVariant> check_constraints(const Problem& problem, const Variant& variant,
                                                const DeviceInfo& device) {
  require_same_operation(problem, variant);
  auto broken = problem.operation().broken_constraint(problem, variant, device);
  if (!broken) {
    return std::nullopt;
  }
  return dropped(variant, broken->constraint, std::move(broken->reason));
}

std::optional<DroppedVariant> check_compiled(const Problem& problem, const Variant& variant,
                                             const DeviceInfo& device,
                                             const KernelResources& resources) {
  const int spilled = resources.spill_store_bytes + resources.spill_load_bytes;
  if (spilled > problem.operation().tolerated_spill_bytes(variant)) {
    return dropped(variant, kSpills,
                   text(resources.spill_store_bytes) + " bytes stored and " +
                       text(resources.spill_load_bytes) + " loaded per thread");
  }
  if (resources.wgmma_warnings > 0) {
    return dropped(variant, kSerialized, "ptxas serialises its products or ignores setmaxnreg");
  }
  const Occupancy resident = occupancy(resources, problem, variant, device);
  if (resident.ctas_per_sm < 1) {
    return dropped(variant, kResidency, "no CTA fits an SM, limited by " + resident.limited_by);
  }
  return std::nullopt;
}

Variant default_variant(const Problem& problem, const DeviceInfo& device) {
  return problem.operation().default_variant(problem, device);
}

}  // namespace swr
