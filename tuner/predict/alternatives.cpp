// SPDX-License-Identifier: MIT
#include "tuner/predict/alternatives.h"

#include "core/operation.h"
#include "tuner/predict/model_ranking.h"
#include <swr/constraints.h>
#include <swr/generator.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace swr {
namespace {

/// The values that an axis has among the variants of a family.
std::set<AxisValue> values_of(const Axis& axis, Family family, const std::vector<Variant>& space) {
  std::set<AxisValue> values;
  for (const Variant& variant : space) {
    if (family_of(variant) == family) {
      values.insert(axis.get(variant));
    }
  }
  return values;
}

std::vector<Alternative> legal_ones(const Problem& problem, const Variant& variant,
                                    const DeviceInfo& device) {
  const std::vector<Variant> space = enumerate_space(problem, device, {}).variants;
  std::vector<Alternative> all;
  for (const Axis& axis : axes(variant.operation())) {
    if (axis.name == "family" || !axis.belongs_to(family_of(variant))) {
      continue;
    }
    for (const AxisValue& value : values_of(axis, family_of(variant), space)) {
      Alternative one{.variant = variant,
                      .choice = std::string(axis.name) + "=" + to_string(value)};
      axis.set(one.variant, value);
      if (one.variant != variant && !check_constraints(problem, one.variant, device)) {
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

}  // namespace

std::vector<Alternative> alternatives(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device, int threads) {
  if (problem.operation().model() == nullptr) {
    return {};
  }
  std::vector<Alternative> all = legal_ones(problem, variant, device);
  std::vector<Variant> variants{variant};
  for (const Alternative& one : all) {
    variants.push_back(one.variant);
  }
  const auto times = model_predictor(problem, device, threads)(variants);
  const std::vector<double>& times_us = times->all_us();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].time_ratio = times_us[i + 1] / times_us.front();
  }
  std::erase_if(all, [](const Alternative& one) { return !std::isfinite(one.time_ratio); });
  std::ranges::stable_sort(all, {}, &Alternative::time_ratio);
  return all;
}

}  // namespace swr
