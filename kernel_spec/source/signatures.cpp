// SPDX-License-Identifier: MIT
#include "kernel_spec/source/signatures.h"

#include "kernel_spec/source/source_tokens.h"
#include "kernel_spec/spec/spec_object.h"

#include <algorithm>
#include <array>
#include <utility>

namespace swr::kernel_spec {
namespace {

using Kind = SourceTokenKind;
using Tokens = std::pair<const SourceToken*, const SourceToken*>;

constexpr std::array<std::string_view, 4> kPrefixes{"kernel", "kernel_tuner", "kernel_launcher",
                                                    "swr"};

bool is_one_of(const SourceToken& token, std::initializer_list<std::string_view> texts) {
  return std::ranges::any_of(texts, [&](std::string_view text) { return token.is(text); });
}

/// Behind the bracket that closes the one at `open`; nullptr where none does soon and before `end`,
/// or where a body, a statement or another kernel begins first.
const SourceToken* behind_bracket(const SourceToken* open, const SourceToken* end) {
  constexpr std::ptrdiff_t kLongestList = 4096;
  const bool is_angle = open->is("<");
  int depth = 0;
  int round = 0;
  end = open + std::min(end - open, kLongestList);
  for (const SourceToken* at = open; at != end; ++at) {
    if (is_one_of(*at, {";", "{", "}", "__global__"})) {
      return nullptr;
    }
    round += is_one_of(*at, {"(", "["}) ? 1 : 0;
    round -= is_one_of(*at, {")", "]"}) ? 1 : 0;
    if (is_angle && round == 0) {
      depth += at->is("<") ? 1 : 0;
      depth -= at->is(">") ? 1 : 0;
    }
    if (is_angle ? depth == 0 : round == 0) {
      return at + 1;
    }
  }
  return nullptr;
}

/// Between the commas of a list of parameters, without brackets. In round ones < compares or
/// shifts.
std::vector<Tokens> items_between_commas(Tokens list) {
  std::vector<Tokens> items;
  int round = 0;
  int angle = 0;
  const SourceToken* begin = list.first;
  for (const SourceToken* at = list.first; at != list.second; ++at) {
    round += is_one_of(*at, {"(", "["}) ? 1 : 0;
    round -= is_one_of(*at, {")", "]"}) ? 1 : 0;
    angle += round == 0 && at->is("<") ? 1 : 0;
    angle -= round == 0 && at->is(">") ? 1 : 0;
    if (round == 0 && angle == 0 && at->is(",")) {
      items.emplace_back(begin, at);
      begin = at + 1;
    }
  }
  if (begin != list.second) {
    items.emplace_back(begin, list.second);
  }
  return items;
}

/// Type, name and default of one parameter. "float a[]" is a pointer.
SignatureParameter parameter_of(Tokens tokens) {
  const SourceToken* const begin = tokens.first;
  const SourceToken* end = tokens.second;
  const SourceToken* const equals =
      std::find_if(begin, end, [](const SourceToken& token) { return token.is("="); });
  SignatureParameter parameter;
  if (equals != end) {
    parameter.usual = text_of(equals + 1, end);
    end = equals;
  }
  const SourceToken* const bracket =
      std::find_if(begin, end, [](const SourceToken& token) { return token.is("["); });
  const bool is_array = bracket != end;
  end = bracket;
  constexpr std::array kTypes{"int",  "float", "double", "char",
                              "long", "short", "bool",   "unsigned"};
  const bool has_name =
      end - begin >= 2 && (end - 1)->kind == Kind::word &&
      std::ranges::none_of(kTypes, [&](std::string_view type) { return (end - 1)->is(type); });
  if (has_name) {
    --end;
    parameter.name = end->spelling;
  }
  parameter.type = text_of(begin, end) + (is_array ? "*" : "");
  return parameter;
}

/// One name behind a type and its stars. A macro that stands for more, such as "int n MORE", leaves
/// two words behind the stars; what a condition may leave out is in another branch than the kernel.
bool is_one_parameter(Tokens tokens, const SignatureParameter& parameter, std::size_t branch) {
  const auto is_star = [](const SourceToken& token) { return is_one_of(token, {"*", "&"}); };
  const auto is_qualifier = [](const SourceToken& token) {
    return is_one_of(token, {"const", "volatile", "__restrict__", "__restrict", "restrict"});
  };
  const auto& [begin, end] = tokens;
  const bool is_conditional = std::any_of(begin, end, [&](const SourceToken& token) {
    return token.kind == Kind::directive || token.branch != branch;
  });
  const SourceToken* const star = std::find_if(begin, end, is_star);
  const auto words = std::count_if(star == end ? begin : star, end, [&](const SourceToken& token) {
    return token.kind == Kind::word && !is_qualifier(token);
  });
  return !parameter.name.empty() && !is_conditional && (star == end || words == 1);
}

class SignatureReader {
 public:
  SignatureReader(std::string_view source, const std::string& where)
      : source_(source), where_(where), at_(source_.tokens().data()), end_(at_ + count() - 1) {}

  SourceKernels read() {
    while (at_ != end_) {
      if (at_->kind == Kind::directive) {
        read_line();
      } else if (at_->is("template")) {
        read_template();
      } else if (at_->is("__global__")) {
        read_kernel();
      } else if (at_->is("namespace")) {
        read_namespace();
      } else if (is_one_of(*at_, {"using", "typedef"})) {
        read_alias();
      } else {
        read_scope();
      }
    }
    made_.unused = std::move(directives_);
    return std::move(made_);
  }

 private:
  std::size_t count() const { return source_.tokens().size(); }

  [[noreturn]] void refuse(std::size_t line, const std::string& what) const {
    refuse_spec(where_, "line " + std::to_string(line) + ": " + what);
  }

  void read_line() {
    const SourceToken* const begin = at_ + 1;
    at_ = std::find_if(begin, end_, [](const auto& one) { return one.kind == Kind::line_end; });
    if (at_ - begin >= 2 && begin->is("define") &&
        (at_ - begin == 2 || !is_macro_function(begin))) {
      add_alias(begin[1].spelling, {begin + 2, at_});
    }
    const bool is_ours = at_ - begin >= 2 && begin->is("pragma") &&
                         std::ranges::find(kPrefixes, begin[1].spelling) != kPrefixes.end();
    for (const SourceToken* word = begin + 2; is_ours && word != at_;) {
      word = read_directive(word);
    }
    at_ += at_ == end_ ? 0 : 1;
  }

  static bool is_macro_function(const SourceToken* define) {
    return define[2].is("(") && !define[2].follows_space;
  }

  /// One that stands for two things, as in branches of a condition, stands for nothing.
  void add_alias(std::string_view name, Tokens tokens) {
    constexpr std::ptrdiff_t kMostTokens = 16;
    constexpr std::size_t kMostAliases = 4096;
    if (tokens.second - tokens.first > kMostTokens || made_.aliases.size() == kMostAliases) {
      return;
    }
    const auto [alias, is_new] =
        made_.aliases.try_emplace(std::string(name), text_of(tokens.first, tokens.second));
    if (!is_new && alias->second != text_of(tokens.first, tokens.second)) {
      alias->second = name;
    }
  }

  /// `using NAME = TYPE;` or `typedef TYPE NAME;`
  void read_alias() {
    const SourceToken* const begin = at_ + 1;
    const bool is_using = at_->is("using");
    at_ = std::find_if(begin, end_, [](const auto& one) {
      return is_one_of(one, {";", "{", "}"});
    });
    if (at_ == end_ || !at_->is(";") || at_ - begin < 2) {
      return;
    }
    if (!is_using) {
      add_alias(at_[-1].spelling, {begin, at_ - 1});
    } else if (begin[1].is("=") && template_.first == template_.second) {
      add_alias(begin->spelling, {begin + 2, at_});
    }
  }

  /// Returns what stands behind it.
  const SourceToken* read_directive(const SourceToken* word) {
    const SourceToken* const open = word + 1;
    if (word->kind != Kind::word || open == at_ || !open->is("(")) {
      refuse(word->line,
             "'" + std::string(word->spelling.substr(0, 60)) +
                 "' is no directive of a pragma; write NAME(...), one behind the other");
    }
    int depth = 0;
    for (const SourceToken* close = open; close != at_; ++close) {
      depth += is_one_of(*close, {"(", "["}) ? 1 : 0;
      depth -= is_one_of(*close, {")", "]"}) ? 1 : 0;
      if (depth == 0) {
        directives_.push_back({std::string(word->spelling), text_of(open + 1, close), word->line});
        return close + 1;
      }
    }
    refuse(word->line, "the bracket of " + std::string(word->spelling) + "( is not closed");
  }

  void read_template() {
    ++at_;
    const SourceToken* const behind = at_->is("<") ? behind_bracket(at_, end_) : nullptr;
    template_ = behind == nullptr ? Tokens{at_, at_} : Tokens{at_ + 1, behind - 1};
    at_ = behind == nullptr ? at_ : behind;
  }

  /// From __global__ to the bracket behind the parameters. What has brackets before another word,
  /// such as __launch_bounds__(n), is an attribute.
  void read_kernel() {
    const SourceToken* name = ++at_;
    while (name != end_ && !is_one_of(*name, {";", "{", "}", "__global__"})) {
      const SourceToken* const open = name + 1;
      if (name->kind != Kind::word || open == end_ || !open->is("(")) {
        ++name;
        continue;
      }
      const SourceToken* const behind = behind_bracket(open, end_);
      if (behind == nullptr) {
        break;
      }
      if (behind->kind != Kind::word || is_one_of(*behind, {"noexcept", "__attribute__"}) ||
          has_bounds_behind(behind)) {
        at_ = behind;
        return add_kernel(*name, {open + 1, behind - 1});
      }
      name = behind;
    }
    at_ = name;
  }

  /// Of `k(...) __launch_bounds__(n);`, not of an attribute before the name.
  bool has_bounds_behind(const SourceToken* behind) const {
    const SourceToken* const end =
        behind->is("__launch_bounds__") ? behind_bracket(behind + 1, end_) : nullptr;
    return end != nullptr && end->kind != Kind::word;
  }

  void add_kernel(const SourceToken& name, Tokens list) {
    constexpr std::size_t kMostKernels = 4096;
    if (made_.kernels.size() == kMostKernels) {
      refuse(name.line, "it has more than " + std::to_string(kMostKernels) + " kernels");
    }
    KernelSignature& kernel = made_.kernels.emplace_back();
    kernel.name = name.spelling;
    kernel.line = name.line;
    for (const std::string& space : scopes_) {
      kernel.qualified_name += space.empty() ? "" : space + "::";
    }
    kernel.qualified_name += kernel.name;
    for (const Tokens& item : items_between_commas(template_)) {
      kernel.template_parameters.push_back(parameter_of(item));
    }
    template_ = {};
    const bool is_void = list.second - list.first == 1 && list.first->is("void");
    for (const Tokens& item : is_void ? std::vector<Tokens>{} : items_between_commas(list)) {
      kernel.parameters.push_back(parameter_of(item));
      kernel.is_complete =
          kernel.is_complete && is_one_parameter(item, kernel.parameters.back(), name.branch);
    }
    kernel.directives = std::exchange(directives_, {});
  }

  /// `namespace a::b {`; what is no such opening is passed over.
  void read_namespace() {
    constexpr std::size_t kLongestName = 256;
    constexpr std::size_t kMostNested = 16;
    std::string name;
    const SourceToken* at = at_ + 1;
    while (at != end_ && (at->kind == Kind::word || is_one_of(*at, {"::", "["}))) {
      const SourceToken* const open = at->is("[") ? at : at + 1;
      const bool is_attribute = open == at || open->is("(");
      name += is_attribute || at->is("inline") ? "" : at->spelling;
      at = is_attribute ? behind_bracket(open, end_) : at + 1;
      if (at == nullptr) {
        at_ = open;
        return;
      }
    }
    at_ = at;
    if (at_ != end_ && at_->is("{")) {
      const bool is_usual = name.size() <= kLongestName && scopes_.size() < kMostNested;
      scopes_.push_back(is_usual ? std::move(name) : std::string());
      ++at_;
    }
  }

  void read_scope() {
    if (at_->is("{")) {
      scopes_.emplace_back();
    } else if (at_->is("}") && !scopes_.empty()) {
      scopes_.pop_back();
    }
    template_ = is_one_of(*at_, {";", "{", "}"}) ? Tokens{} : template_;
    ++at_;
  }

  SourceTokens source_;
  const std::string& where_;
  const SourceToken* at_;
  const SourceToken* end_;
  SourceKernels made_;
  std::vector<SourceDirective> directives_;
  std::vector<std::string> scopes_;  ///< Names of namespaces; empty for other brackets.
  Tokens template_{};                ///< Of the declaration that is being read.
};

}  // namespace

SourceKernels kernels_of(std::string_view source, const std::string& where) {
  return SignatureReader(source, where).read();
}

bool declares_template_parameter(std::string_view source, std::string_view name) {
  const SourceTokens tokens(source);
  const SourceToken* const end = tokens.tokens().data() + tokens.tokens().size() - 1;
  for (const SourceToken* at = tokens.tokens().data(); at != end; ++at) {
    const bool begins = at->is("template") && at + 1 != end && at[1].is("<");
    const SourceToken* const behind = begins ? behind_bracket(at + 1, end) : nullptr;
    for (const Tokens& item :
         items_between_commas(behind == nullptr ? Tokens{} : Tokens{at + 2, behind - 1})) {
      if (parameter_of(item).name == name) {
        return true;
      }
    }
  }
  return false;
}

std::vector<std::string> parts_between_commas(std::string_view text, bool has_types) {
  const SourceTokens source(text);
  const std::vector<SourceToken>& tokens = source.tokens();
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    depth += is_one_of(tokens[at], {"(", "[", "{"}) ? 1 : 0;
    depth -= is_one_of(tokens[at], {")", "]", "}"}) ? 1 : 0;
    const bool is_end = tokens[at].kind == Kind::end;
    if (has_types && tokens[at].is("<") && at > 0 && tokens[at - 1].kind == Kind::word &&
        !tokens[at].follows_space) {
      const SourceToken* const behind =
          behind_bracket(&tokens[at], tokens.data() + tokens.size() - 1);
      at = behind == nullptr ? at : static_cast<std::size_t>(behind - tokens.data()) - 1;
    } else if (is_end || (depth <= 0 && tokens[at].is(","))) {
      parts.push_back(text_of(tokens.data() + begin, tokens.data() + at));
      begin = at + 1;
    }
  }
  return parts.size() == 1 && parts.front().empty() ? std::vector<std::string>{} : parts;
}

}  // namespace swr::kernel_spec
