// SPDX-License-Identifier: MIT
// Steps by which spaces of every operation are enumerated.
#pragma once

#include <swr/error.h>
#include <swr/generator.h>
#include <swr/variant.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// For operations whose tiles are axes like others. `axes` are the options to use.
/// Throws: Error{invalid_argument} where --tile is given.
inline void require_no_tiles(const SpaceOptions& options, const std::string& axes) {
  if (!options.tiles.empty()) {
    throw Error(ErrorCode::invalid_argument, "this operation has no --tile; use " + axes);
  }
}

/// Every variant with each value of one axis: those that it is restricted to, else usual(variant).
template <typename Usual>
std::vector<Variant> with_axis(const std::vector<Variant>& variants, const Axis& axis,
                               const SpaceOptions& options, const Usual& usual) {
  const Values* const asked = restriction_of(options, axis.name);
  std::vector<Variant> all;
  for (const Variant& variant : variants) {
    const auto expanded =
        expand({variant}, axis, asked != nullptr ? *asked : Values(usual(variant)));
    all.insert(all.end(), expanded.begin(), expanded.end());
  }
  return all;
}

/// Every combination of the axes' values: those an axis is restricted to, else usual(variant,
/// name), where the axes before have their values already.
template <typename Usual>
std::vector<Variant> every_choice(const Variant& first, std::span<const Axis> axes,
                                  const SpaceOptions& options, const Usual& usual) {
  std::vector<Variant> all{first};
  for (const Axis& axis : axes) {
    all = with_axis(all, axis, options,
                    [&](const Variant& variant) { return usual(variant, axis.name); });
  }
  return all;
}

}  // namespace swr
