// SPDX-License-Identifier: MIT
#include "core/axis_builders.h"
#include "core/operation.h"
#include <swr/error.h>
#include <swr/variant.h>

#include <vector>

namespace swr {
namespace {

std::string no_axis_message(Family family, std::string_view axis) {
  return "family " + std::string(to_string(family)) + " has no axis " + std::string(axis);
}

Order& order_in(AttentionVariant& variant) { return variant.order; }
Order& order_in(GemmVariant& variant) { return variant.k_order; }

}  // namespace

Op op_of(const Variant& variant) { return static_cast<Op>(variant.index()); }

Family family_of(const Variant& variant) {
  return std::visit([](const auto& one) { return one.family; }, variant);
}

Order order_of(const Variant& variant) {
  Variant copy = variant;
  return std::visit([](auto& one) { return order_in(one); }, copy);
}

void set_order(Variant& variant, Order order) {
  std::visit([&](auto& one) { order_in(one) = order; }, variant);
}

std::span<const Axis> axes(Op op) {
  switch (op) {
    case Op::attention:
      return attention_axes();
    case Op::gemm:
      return gemm_axes();
  }
  return {};
}

const Axis* find_axis(Op op, std::string_view name) {
  for (const Axis& axis : axes(op)) {
    if (axis.name == name) {
      return &axis;
    }
  }
  return nullptr;
}

Variant default_axes(Op op) {
  return op == Op::gemm ? Variant(GemmVariant{}) : Variant(AttentionVariant{});
}

std::string to_key(const Variant& variant) {
  std::string key;
  for (const Axis& axis : axes(op_of(variant))) {
    if (axis.belongs_to(family_of(variant))) {
      key += key.empty() ? "" : ",";
      key += std::string(axis.name) + "=" + to_string(axis.get(variant));
    }
  }
  return key;
}

Variant parse_variant(Op op, std::string_view key) {
  Variant variant = default_axes(op);
  std::vector<const Axis*> named;
  while (!key.empty()) {
    const auto comma = key.find(',');
    const std::string_view part = key.substr(0, comma);
    key = comma == std::string_view::npos ? std::string_view{} : key.substr(comma + 1);
    const auto equals = part.find('=');
    const Axis* const axis = find_axis(op, part.substr(0, equals));
    if (equals == std::string_view::npos || axis == nullptr) {
      throw Error(ErrorCode::invalid_argument, "'" + std::string(part) +
                                                   "' is no axis=value part of a variant of " +
                                                   std::string(to_string(op)));
    }
    axis->set(*axis, variant, std::string(part.substr(equals + 1)));
    named.push_back(axis);
  }
  for (const Axis* const axis : named) {
    if (!axis->belongs_to(family_of(variant))) {
      throw Error(ErrorCode::invalid_argument, no_axis_message(family_of(variant), axis->name));
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

}  // namespace swr
