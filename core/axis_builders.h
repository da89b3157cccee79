// SPDX-License-Identifier: MIT
// Builds axes from members of the variants.
#pragma once

#include "core/axis_values.h"
#include "core/enum_text.h"
#include <swr/variant.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace swr {

/// The spellings that axes of several operations share.
inline constexpr std::array<std::string_view, 2> kFamilies{"portable", "hopper"};
inline constexpr std::array<std::string_view, 3> kOrders{"cyclic", "sawtooth", "right_to_left"};
inline constexpr std::array<std::string_view, 5> kPersistences{"grid", "persistent", "pairs",
                                                               "snake", "dynamic"};
inline constexpr std::array<std::string_view, 2> kSwitches{"off", "on"};

template <typename Owner, typename Value>
Owner owner_of(Value Owner::*);

/// The variant that has the member, and the type of its values.
template <auto Member>
using OwnerOf = decltype(owner_of(Member));
template <auto Member>
using ValueOf = std::remove_cvref_t<decltype(OwnerOf<Member>{}.*Member)>;

template <auto Member>
bool has_equal(const Variant& a, const Variant& b) {
  return std::get<OwnerOf<Member>>(a).*Member == std::get<OwnerOf<Member>>(b).*Member;
}

template <auto Member, int Low, int High>
constexpr Axis integer_axis(std::string_view name, std::string_view summary,
                            std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const Variant& variant) -> AxisValue {
            return static_cast<long long>(std::get<OwnerOf<Member>>(variant).*Member);
          },
          .is_equal = has_equal<Member>,
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                std::get<OwnerOf<Member>>(variant).*Member =
                    require_in_range(value, axis.name, Low, High);
              },
          .spellings = {},
          .only = only};
}

/// `spellings` may be fewer than the enumeration has: values that the operation lacks are refused.
template <auto Member>
constexpr Axis enum_axis(std::string_view name, std::string_view summary,
                         std::span<const std::string_view> spellings,
                         std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const Variant& variant) -> AxisValue {
            return std::string(to_string(std::get<OwnerOf<Member>>(variant).*Member));
          },
          .is_equal = has_equal<Member>,
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                std::get<OwnerOf<Member>>(variant).*Member =
                    parse_enum<ValueOf<Member>>(axis.spellings, to_string(value), axis.name);
              },
          .spellings = spellings,
          .only = only};
}

template <auto Member>
constexpr Axis switch_axis(std::string_view name, std::string_view summary,
                           std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const Variant& variant) -> AxisValue {
            return std::string(kSwitches[std::get<OwnerOf<Member>>(variant).*Member ? 1 : 0]);
          },
          .is_equal = has_equal<Member>,
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                std::get<OwnerOf<Member>>(variant).*Member =
                    parse_enum<int>(axis.spellings, to_string(value), axis.name) != 0;
              },
          .spellings = kSwitches,
          .only = only};
}

}  // namespace swr
