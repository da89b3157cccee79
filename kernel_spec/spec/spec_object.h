// SPDX-License-Identifier: MIT
// Reading objects of spec files: every key is known or refused by name.
#pragma once

#include "core/json.h"
#include "core/source_words.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/spec/element_type.h"
#include <swr/error.h>
#include <swr/kernel_spec.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

/// A literal of C++ with this text, whatever it holds: how text of a spec goes into a source.
inline std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < ' ') {
      quoted += '\\';
      quoted += '0';
      quoted += static_cast<char>('0' + code / 8);
      quoted += static_cast<char>('0' + code % 8);
      continue;
    }
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

/// The text with `by` in place of each such word.
inline std::string with_word_replaced(std::string_view text, std::string_view word,
                                      std::string_view by) {
  std::string replaced;
  std::size_t begin = 0;
  for (auto at = find_word(text, word, 0); at != text.npos; at = find_word(text, word, begin)) {
    replaced.append(text.substr(begin, at - begin)).append(by);
    begin = at + word.size();
  }
  return replaced.append(text.substr(begin));
}

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

// What tuning looks for, as --objective and specs say it: a word, or an expression over metrics of
// which the smallest value is the best (docs/energy.md).

/// What an objective may read: the keys of metrics(), then kFurtherMetricNames.
std::vector<std::string> objective_names();

/// Of "time", "energy", "edp" (energy times time) or an expression over objective_names(), which
/// are its table. It is computed once with made-up metrics, so that no run ends in what it cannot.
/// Throws: Error{invalid_argument} naming what is unknown and the nearest that is known, or why
/// the expression cannot be computed.
BoundExpression bound_objective(const std::string& text);

/// Throws: Error{invalid_argument} where it has no value, or one that is no number.
double objective_value(const std::string& text, const BoundExpression& expression,
                       std::span<const Value> table);

/// A checked objective, as it is kept: what is to be large is its reciprocal.
/// Throws: Error{invalid_argument} as bound_objective() does, and for words that are to be large.
std::string kept_objective(const std::string& text, bool is_to_be_large);

// The forms that specs come in, and what must hold of all of them.

// Throw, all of them: Error{invalid_argument} naming what cannot be read.

/// swr's own form (docs/kernels.md). `where` names the file.
KernelSpec read_swr_json(const Json& json, const std::string& where);

/// True for what claims to be a T1 file.
bool is_t1(const Json& json);
KernelSpec read_t1(const Json& json, const std::string& where);

/// A .cu file with pragmas of kernel_launcher's form.
KernelSpec read_pragmas(const std::string& source, const std::string& where);

// Texture arguments: how specs spell them, and what the driver's textures can be.

/// Throws: Error{invalid_argument} naming what cannot be read.
KernelTexture read_texture(const Json& json, const std::string& where);
/// As read_texture() reads it.
Json texture_json(const KernelTexture& texture);

/// Throws: Error{invalid_argument} where no texture can be so, on whatever GPU.
void require_texture(const KernelArgument& argument, const ElementType& type,
                     const std::string& where);

// What a new spec must not leave silent. Specs that a database holds are read without these checks.

/// Throws: Error{invalid_argument} for a setting that would have no effect: a default that is no
/// value, a parameter by which other tools set the GPU, what belongs to another fill.
void require_settings_with_effect(const KernelSpec& spec);

/// Throws: Error{invalid_argument} where a kernel that stands in the source with all its parameters
/// takes others than its step has. Kernels whose parameters macros or templates hide pass.
void require_arguments_of_kernels(const KernelSpec& spec);

}  // namespace swr::kernel_spec
