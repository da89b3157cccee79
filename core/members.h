// SPDX-License-Identifier: MIT
// The members of a struct, listed once: members_of(), beside the struct, names them, and C++ text
// of a value follows from that.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace swr {
namespace detail {

/// What the compiler calls the one template argument of a function, behind its namespace.
constexpr std::string_view last_name(std::string_view function, std::string_view parameter) {
  std::string_view name = function.substr(function.find(parameter) + parameter.size());
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

/// Converts to whatever a member is.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: that is what it is for
};

template <typename Struct, typename... Parts>
constexpr std::size_t member_count() {
  if constexpr (requires { Struct{Parts{}..., Anything{}}; }) {
    return member_count<Struct, Parts..., Anything>();
  } else {
    return sizeof...(Parts);
  }
}

}  // namespace detail

/// "tile_m" of &Config::tile_m.
template <auto kMember>
constexpr std::string_view member_name() {
  return detail::last_name(__PRETTY_FUNCTION__, "kMember = ");
}

/// "DType" of swr::DType.
template <typename Type>
constexpr std::string_view type_name() {
  return detail::last_name(__PRETTY_FUNCTION__, "Type = ");
}

/// A list of members, in the order of the struct.
template <auto... kMembers>
struct Members {
  template <typename Struct, typename Visit>
  static void visit(const Struct& of, Visit visit) {
    (visit(member_name<kMembers>(), of.*kMembers), ...);
  }
};

/// The list of all members: the build stops where one is missing.
template <typename Struct, auto... kMembers>
constexpr Members<kMembers...> all_members() {
  static_assert(detail::member_count<Struct>() == sizeof...(kMembers),
                "every member of the struct is to be listed");
  return {};
}

/// A value as C++; a struct in braces. `scope` stands before enumerations: "swr::" or nothing.
template <typename Value>
std::string cpp_text(const Value& value, std::string_view scope = "swr::");

/// The members one behind the other: "swr::DType::bf16, 128".
template <typename Struct>
std::string listed_members(const Struct& of, std::string_view scope = "swr::") {
  std::string text;
  members_of(of).visit(of, [&](std::string_view /*name*/, const auto& value) {
    text += (text.empty() ? "" : ", ") + cpp_text(value, scope);
  });
  return text;
}

/// The members as designated initialisers, each on a line of its own.
template <typename Struct>
std::string designated_members(const Struct& of) {
  std::string text;
  members_of(of).visit(of, [&](std::string_view name, const auto& value) {
    text += "    ." + std::string(name) + " = " + cpp_text(value, "") + ",\n";
  });
  return text;
}

template <typename Value>
std::string cpp_text(const Value& value, std::string_view scope) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<Value>) {
    return std::string(scope) + std::string(type_name<Value>()) +
           "::" + std::string(to_string(value));
  } else if constexpr (std::is_class_v<Value>) {
    return "{" + listed_members(value, scope) + "}";
  } else {
    return std::to_string(value);
  }
}

}  // namespace swr
