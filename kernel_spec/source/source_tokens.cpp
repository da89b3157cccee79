// SPDX-License-Identifier: MIT
#include "kernel_spec/source/source_tokens.h"

#include "core/ascii.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <optional>

namespace swr::kernel_spec {
namespace {

using Kind = SourceTokenKind;

/// Without a byte order mark and carriage returns. A backslash at a line's end joins the next line
/// with it; the line that is missing then follows empty, so that lines keep their numbers.
std::string with_lines_joined(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  std::string joined;
  joined.reserve(text.size());
  std::size_t missing = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
      at += rest[1] == '\r' ? 2 : 1;
      ++missing;
    } else if (text[at] == '\n') {
      joined.append(missing + 1, '\n');
      missing = 0;
    } else if (text[at] != '\r') {
      joined += text[at];
    }
  }
  return joined;
}

class SourceTokenizer {
 public:
  explicit SourceTokenizer(std::string_view text) : text_(text) {}

  SourceToken next() {
    const std::size_t before = at_;
    skip_blanks();
    token_ = {.line = line_, .follows_space = at_ > before};
    if (in_directive_ && (at_ == text_.size() || text_[at_] == '\n')) {
      in_directive_ = false;
      return take(Kind::line_end, 0);
    }
    if (at_ == text_.size()) {
      return take(Kind::end, 0);
    }
    const char first = text_[at_];
    if (first == '#' && is_line_begin_) {
      in_directive_ = true;
      return take(Kind::directive, 1);
    }
    if (ascii::is_digit(first)) {
      return take(Kind::number, length_of_number());
    }
    if (is_name_character(first)) {
      return word();
    }
    if (first == '"' || first == '\'') {
      return take(Kind::text, length_of_quoted());
    }
    return take(Kind::symbol, text_.substr(at_).starts_with("::") ? 2 : 1);
  }

 private:
  SourceToken take(Kind kind, std::size_t length) {
    token_.kind = kind;
    token_.spelling = text_.substr(at_, length);
    line_ += static_cast<std::size_t>(std::ranges::count(token_.spelling, '\n'));
    at_ += length;
    is_line_begin_ = false;
    return token_;
  }

  /// Blanks and comments; up to its end where a line is a directive.
  void skip_blanks() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*")) {
        const std::size_t close = text_.find("*/", at_ + 2);
        const std::size_t end = close == text_.npos ? text_.size() : close + 2;
        const std::string_view comment = text_.substr(at_, end - at_);
        line_ += static_cast<std::size_t>(std::ranges::count(comment, '\n'));
        at_ = end;
      } else if (rest.front() == '\n' && !in_directive_) {
        is_line_begin_ = true;
        ++line_;
        ++at_;
      } else if (std::string_view(" \t\v\f").find(rest.front()) != rest.npos) {
        ++at_;
      } else {
        return;
      }
    }
  }

  template <typename Predicate>
  std::size_t length_while(Predicate predicate) const {
    const std::string_view rest = text_.substr(at_);
    return static_cast<std::size_t>(std::ranges::find_if_not(rest, predicate) - rest.begin());
  }

  /// 0x1F, 1'000, 1.5e-3f: whatever the preprocessor takes for one number.
  std::size_t length_of_number() const {
    char last = '0';
    return length_while([&](char c) {
      const bool is_sign = (c == '+' || c == '-') && (last == 'e' || last == 'E');
      const bool goes_on = is_name_character(c) || c == '.' || c == '\'' || is_sign;
      last = c;
      return goes_on;
    });
  }

  SourceToken word() {
    const std::size_t length = length_while(is_name_character);
    const std::string_view name = text_.substr(at_, length);
    constexpr std::array<std::string_view, 5> kRaw{"R", "u8R", "uR", "UR", "LR"};
    const bool is_raw =
        text_.substr(at_ + length).starts_with('"') && std::ranges::find(kRaw, name) != kRaw.end();
    return is_raw ? take(Kind::text, length_of_raw(at_ + length)) : take(Kind::word, length);
  }

  /// A line's end ends it, too.
  std::size_t length_of_quoted() const {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != text_[at_] && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    const bool is_closed = end < text_.size() && text_[end] == text_[at_];
    return std::min(end + (is_closed ? 1 : 0), text_.size()) - at_;
  }

  std::size_t length_of_raw(std::size_t quote) const {
    const std::size_t open = text_.find('(', quote);
    if (open == text_.npos) {
      return text_.size() - at_;
    }
    const std::string close = ")" + std::string(text_.substr(quote + 1, open - quote - 1)) + "\"";
    const std::size_t end = text_.find(close, open);
    return (end == text_.npos ? text_.size() : end + close.size()) - at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  bool is_line_begin_ = true;
  bool in_directive_ = false;
  SourceToken token_;
};

/// Whether a condition of #if holds; nothing where that is not known.
std::optional<bool> condition_of(std::string_view word, const std::vector<SourceToken>& line) {
  constexpr std::array<std::string_view, 5> kDefined{"swr_tune", "kernel_tuner", "__CUDACC__",
                                                     "__CUDACC_RTC__", "__CUDA_ARCH__"};
  const auto is_defined = [&](const SourceToken& name) -> std::optional<bool> {
    return std::ranges::find(kDefined, name.spelling) == kDefined.end() ? std::nullopt
                                                                        : std::optional(true);
  };
  if (word == "ifdef" || word == "ifndef") {
    const auto known = line.empty() ? std::nullopt : is_defined(line.front());
    return known ? std::optional(*known == (word == "ifdef")) : std::nullopt;
  }
  // What is not known divides by 0, so that a condition that needs it has no value.
  std::string text;
  bool asks = false;
  for (const SourceToken& token : line) {
    const bool is_name = token.kind == Kind::word;
    text += token.follows_space ? " " : "";
    if (is_name && token.is("defined")) {
      asks = true;
    } else if (is_name || token.kind == Kind::text) {
      text += asks && is_defined(token) ? "1" : "(1 / 0)";
      asks = false;
    } else {
      text += token.spelling;
    }
  }
  try {
    ValueHeap heap;
    return is_true(Expression(text, Dialect::c).evaluate({}, heap));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Drops what conditions leave out, and their lines.
class ConditionalTokens {
 public:
  explicit ConditionalTokens(std::string_view text) : tokenizer_(text) {}

  std::vector<SourceToken> read() {
    for (;;) {
      SourceToken token = tokenizer_.next();
      token.branch = branches_.empty() ? 0 : branches_.back().number;
      if (token.kind == Kind::directive) {
        take_directive(token);
      } else if (token.kind == Kind::end || is_alive()) {
        kept_.push_back(token);
      }
      if (token.kind == Kind::end) {
        return std::move(kept_);
      }
    }
  }

 private:
  struct Branch {
    std::size_t number = 0;
    bool is_alive_outside = true;
    bool is_alive = true;
    bool was_taken = false;  ///< A branch that surely holds came before.
  };

  bool is_alive() const { return branches_.empty() || branches_.back().is_alive; }

  void take_directive(const SourceToken& begin) {
    std::vector<SourceToken> line;
    do {
      line.push_back(tokenizer_.next());
    } while (line.back().kind != Kind::line_end);
    const std::string_view word = line.front().spelling;
    const std::vector<SourceToken> condition(line.begin() + (line.size() > 1 ? 1 : 0),
                                             line.end() - 1);
    if (word == "if" || word == "ifdef" || word == "ifndef") {
      branches_.push_back({.is_alive_outside = is_alive()});
      enter(branches_.back(), condition_of(word, condition));
    } else if ((word == "elif" || word == "else") && !branches_.empty()) {
      enter(branches_.back(), word == "else" ? true : condition_of(word, condition));
    } else if (word == "endif" && !branches_.empty()) {
      branches_.pop_back();
    } else if (is_alive()) {
      kept_.push_back(begin);
      kept_.insert(kept_.end(), line.begin(), line.end());
    }
  }

  void enter(Branch& branch, std::optional<bool> holds) {
    branch.number = ++branches_so_far_;
    branch.is_alive = branch.is_alive_outside && !branch.was_taken && holds.value_or(true);
    branch.was_taken = branch.was_taken || holds.value_or(false);
  }

  SourceTokenizer tokenizer_;
  std::vector<Branch> branches_;
  std::size_t branches_so_far_ = 0;
  std::vector<SourceToken> kept_;
};

}  // namespace

SourceTokens::SourceTokens(std::string_view source)
    : text_(with_lines_joined(source)), tokens_(ConditionalTokens(text_).read()) {}

std::string text_of(const SourceToken* begin, const SourceToken* end) {
  std::string text;
  for (const SourceToken* token = begin; token != end; ++token) {
    text += (token->follows_space && token != begin ? " " : "") + std::string(token->spelling);
  }
  return text;
}

}  // namespace swr::kernel_spec
