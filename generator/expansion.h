// SPDX-License-Identifier: MIT
// Steps by which spaces of every operation are enumerated.
#pragma once

#include <swr/generator.h>
#include <swr/variant.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

using Values = std::vector<AxisValue>;

inline Values texts(std::span<const std::string_view> spellings) {
  Values values;
  for (const std::string_view spelling : spellings) {
    values.emplace_back(std::string(spelling));
  }
  return values;
}

/// The values an axis is restricted to; nullptr when it is not.
inline const Values* restriction_of(const SpaceOptions& options, std::string_view axis) {
  const auto at = options.restrictions.find(axis);
  return at == options.restrictions.end() ? nullptr : &at->second;
}

inline void append_unique(std::vector<Variant>& variants, const Variant& variant) {
  if (std::ranges::find(variants, variant) == variants.end()) {
    variants.push_back(variant);
  }
}

/// Every variant with every value of one axis.
inline std::vector<Variant> expand(const std::vector<Variant>& variants, const Axis& axis,
                                   const Values& values) {
  std::vector<Variant> expanded;
  expanded.reserve(variants.size() * values.size());
  for (Variant variant : variants) {
    for (const AxisValue& value : values) {
      axis.set(variant, value);
      expanded.push_back(variant);
    }
  }
  return expanded;
}

}  // namespace swr
