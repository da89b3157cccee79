// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "generator/expansion.h"
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <string>

namespace swr {
namespace {

/// Checks a restriction against its axis and removes repetitions ("2" and 2 are the same value).
Values checked_values(const Operation& op, const std::string& name, const Values& values) {
  const Axis* const axis = find_axis(op, name);
  if (axis == nullptr) {
    std::string known;
    for (const Axis& other : axes(op)) {
      known += (known.empty() ? "" : ", ") + std::string(other.name);
    }
    throw Error(ErrorCode::invalid_argument, "unknown axis '" + name + "'; choose one of " + known);
  }
  if (values.empty()) {
    throw Error(ErrorCode::invalid_argument, "axis " + name + " is restricted to no value at all");
  }
  Values unique;
  Variant scratch = default_axes(op);
  for (const AxisValue& value : values) {
    axis->set(scratch, value);
    const AxisValue canonical = axis->get(scratch);
    if (std::ranges::find(unique, canonical) == unique.end()) {
      unique.push_back(canonical);
    }
  }
  return unique;
}

/// A restricted axis that a family lacks leaves the family out: who asks for a main loop wants
/// kernels that have one.
bool has_restricted_axes(const Operation& op, const SpaceOptions& options, Family family) {
  return std::ranges::all_of(options.restrictions, [&](const auto& restriction) {
    return find_axis(op, restriction.first)->belongs_to(family);
  });
}

/// Families that are asked for; else all but those made for one other architecture.
bool family_wanted(const Operation& op, const FamilySource& source, const SpaceOptions& options,
                   const DeviceInfo& device) {
  if (!has_restricted_axes(op, options, source.family)) {
    return false;
  }
  if (const Values* const asked_for = restriction_of(options, "family")) {
    const AxisValue name = std::string(to_string(source.family));
    return std::ranges::find(*asked_for, name) != asked_for->end();
  }
  return source.arch_suffix.empty() || device.sm_arch == source.first_arch;
}

SpaceOptions checked(const Operation& op, const SpaceOptions& options) {
  SpaceOptions canonical{.tiles = options.tiles, .restrictions = {}};
  for (const auto& [name, values] : options.restrictions) {
    canonical.restrictions.emplace(name, checked_values(op, name, values));
  }
  return canonical;
}

}  // namespace

SearchSpace enumerate_space(const Problem& problem, const DeviceInfo& device,
                            const SpaceOptions& options) {
  validate(problem);
  const Operation& op = problem.operation();
  const SpaceOptions restricted = checked(op, options);
  SearchSpace space;
  for (const FamilySource& source : op.families()) {
    if (!family_wanted(op, source, restricted, device)) {
      continue;
    }
    Points points = op.points(source.family, problem, device, restricted);
    space.left_out.merge(points.left_out);
    for (const Variant& variant : points.listed) {
      if (auto dropped = check_constraints(problem, variant, device)) {
        space.dropped.push_back(std::move(*dropped));
      } else {
        space.variants.push_back(variant);
      }
    }
  }
  return space;
}

}  // namespace swr
