// SPDX-License-Identifier: MIT
// Reading objects of spec files: every key is known or refused by name.
#pragma once

#include "core/json.h"
#include <swr/error.h>
#include <swr/kernel_spec.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

/// Throws: Error{invalid_argument}, always: "WHERE: WHAT".
[[noreturn]] void refuse_spec(const std::string& where, const std::string& what);

/// A view of a JSON object; `where` names it in messages.
class SpecObject {
 public:
  /// Throws: Error{invalid_argument} when it is no object, or has a key that is not listed, with
  /// the nearest that is.
  SpecObject(const Json& json, std::string where, std::initializer_list<const char*> keys);

  const std::string& where() const { return where_; }
  bool has(const char* key) const;
  /// Requires: the key is there.
  const Json& at(const char* key) const { return json_.at(key); }

  // Throw, all of them: Error{invalid_argument} when the value has another type.
  std::string text(const char* key) const;
  std::string text_or(const char* key, const std::string& otherwise) const;
  double number_or(const char* key, double otherwise) const;
  long long integer_or(const char* key, long long otherwise) const;
  bool flag_or(const char* key, bool otherwise) const;
  /// A number's text, or the text itself; `otherwise` when it is not there or null.
  std::string expression_or(const char* key, const std::string& otherwise) const;
  /// Of one expression or of a list of them.
  std::vector<std::string> expressions(const char* key) const;
  std::vector<std::string> texts(const char* key) const;

  std::string place(const char* key) const { return where_ + "." + key; }

 private:
  const Json& json_;
  std::string where_;
};

/// Of a number or a text. Throws: Error{invalid_argument} naming the place.
std::string expression_text(const Json& json, const std::string& where);

/// A size of the problem. One beyond 2147483647, for which a problem has no room, becomes a value
/// that every problem has. Throws: Error{invalid_argument} for what is no whole number above 0.
void add_size(KernelSpec& kernel, const std::string& name, const std::string& number,
              const std::string& where);

/// Of a list, or of an expression of Python's that gives one.
/// Throws: Error{invalid_argument} naming the place.
std::vector<std::string> parameter_values(const Json& json, const std::string& where);

/// "objective" and "objective_higher_is_better", as Kernel Tuner calls them: what is to be large is
/// kept as its reciprocal. Throws: Error{invalid_argument} naming the place.
void read_objective(const SpecObject& object, KernelSpec& kernel);

/// One value of a parameter. Throws: Error{invalid_argument} naming the place.
std::string value_text(const Json& json, const std::string& where);

// Where in a spec an error was found.

/// Where an expression stands, put together for messages alone: spaces compute millions.
struct Place {
  std::string_view kind;
  std::string_view name;
  std::string_view part = {};

  operator std::string() const {
    return std::string(kind).append(name).append(part.empty() ? "" : ", ").append(part);
  }
};

/// Rethrows with the place before the message.
template <typename Where, typename Work>
auto at_place(const Where& where, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(where) + ": " + error.what());
  }
}

}  // namespace swr::kernel_spec
