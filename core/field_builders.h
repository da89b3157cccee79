// SPDX-License-Identifier: MIT
// Builds the fields of problems and the axes of variants from the members of an operation's
// structs.
#pragma once

#include "core/enum_text.h"
#include <swr/error.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <array>
#include <cstddef>
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
inline constexpr std::array<std::string_view, 2> kDTypes{"fp16", "bf16"};
/// Every DType.
inline constexpr std::array<std::string_view, 4> kEveryDType{"fp16", "bf16", "e4m3", "e5m2"};

/// The offset of a member, which pointers to members do not give away.
template <typename Owner, typename Value>
std::size_t offset_of(Value Owner::*member) {
  static const Owner owner{};
  return static_cast<std::size_t>(reinterpret_cast<const char*>(&(owner.*member)) -
                                  reinterpret_cast<const char*>(&owner));
}

template <typename Owner, typename Value>
Field field_of(Value Owner::*member, std::string_view name, std::string_view summary) {
  constexpr bool is_flag = std::is_same_v<Value, bool>;
  static_assert(is_flag || sizeof(Value) == sizeof(int), "members are int, bool or enumerations");
  return {.name = name,
          .summary = summary,
          .type = is_flag                 ? FieldType::flag
                  : std::is_enum_v<Value> ? FieldType::choice
                                          : FieldType::integer,
          .offset = offset_of(member)};
}

template <typename Owner>
Axis integer_axis(int Owner::*member, int least, int most, std::string_view name,
                  std::string_view summary, std::optional<Family> only = {}) {
  Axis axis{field_of(member, name, summary)};
  axis.least = least;
  axis.most = most;
  axis.only = only;
  return axis;
}

/// `spellings` may be fewer than the enumeration has: values that the operation lacks are refused.
template <typename Owner, typename Value>
Axis choice_axis(Value Owner::*member, std::span<const std::string_view> spellings,
                 std::string_view name, std::string_view summary, std::optional<Family> only = {}) {
  Axis axis{field_of(member, name, summary)};
  axis.spellings = spellings;
  axis.most = static_cast<int>(spellings.size()) - 1;
  axis.only = only;
  return axis;
}

template <typename Owner>
Axis switch_axis(bool Owner::*member, std::string_view name, std::string_view summary,
                 std::optional<Family> only = {}) {
  return choice_axis(member, kSwitches, name, summary, only);
}

/// A field or an axis that what was stored before it came does not name.
template <typename FieldOrAxis>
FieldOrAxis later(FieldOrAxis field) {
  field.came_later = true;
  return field;
}

/// The largest alignment that matters to a kernel, which is the usual one.
inline constexpr int kMostAlignmentBytes = 16;

/// Of a file's name; the usual alignment is not named.
inline std::string alignment_suffix(int alignment_bytes) {
  return alignment_bytes == kMostAlignmentBytes ? "" : "_align" + std::to_string(alignment_bytes);
}

/// Throws: Error{invalid_argument} unless it is 2, 4, 8 or 16.
inline void require_alignment(int alignment_bytes) {
  if (alignment_bytes < 2 || alignment_bytes > kMostAlignmentBytes ||
      (alignment_bytes & (alignment_bytes - 1)) != 0) {
    throw Error(ErrorCode::invalid_argument,
                "alignment must be 2, 4, 8 or 16 bytes, not " + std::to_string(alignment_bytes));
  }
}

/// What makes a problem servable is checked by validate(), not by bounds.
inline constexpr int kMostOfAnyField = 2147483647;

/// How a field is asked for on the command line.
struct FieldOption {
  std::string_view option;
  std::string_view follows = {};
  int usual = 0;
  bool is_required = false;
  bool takes_list = false;
};

inline ProblemField with_option(const Field& field, FieldRole role, const FieldOption& option) {
  ProblemField described{field};
  described.role = role;
  described.option = option.option;
  described.follows = option.follows;
  described.usual = option.usual;
  described.is_required = option.is_required;
  described.takes_list = option.takes_list;
  return described;
}

template <typename Owner>
ProblemField size_field(int Owner::*member, std::string_view name, std::string_view summary,
                        const FieldOption& option) {
  Field field = field_of(member, name, summary);
  field.most = kMostOfAnyField;
  return with_option(field, FieldRole::size, option);
}

/// `most` bounds what the member may hold: a lookup key has so many bits for it.
template <typename Owner>
ProblemField number_field(int Owner::*member, int most, std::string_view name,
                          std::string_view summary, const FieldOption& option) {
  Field field = field_of(member, name, summary);
  field.most = most;
  return with_option(field, FieldRole::kind, option);
}

template <typename Owner>
ProblemField alignment_field(int Owner::*member) {
  return number_field(member, kMostAlignmentBytes, "alignment_bytes",
                      "Bytes that divide every address and stride: 2, 4, 8 or 16",
                      {.option = "alignment", .usual = kMostAlignmentBytes});
}

template <typename Owner>
ProblemField flag_field(bool Owner::*member, std::string_view name, std::string_view summary,
                        const FieldOption& option) {
  Field field = field_of(member, name, summary);
  field.most = 1;
  return with_option(field, FieldRole::kind, option);
}

template <typename Owner, typename Value>
ProblemField choice_field(Value Owner::*member, std::span<const std::string_view> spellings,
                          std::string_view name, std::string_view summary,
                          const FieldOption& option) {
  Field field = field_of(member, name, summary);
  field.spellings = spellings;
  field.most = static_cast<int>(spellings.size()) - 1;
  return with_option(field, FieldRole::kind, option);
}

}  // namespace swr
