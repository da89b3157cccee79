// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/tokens.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <span>

namespace swr::kernel_spec {
namespace {

using namespace std::string_view_literals;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool continues_name(char c) { return starts_name(c) || is_digit(c); }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The longest come first.
constexpr std::array kPythonSymbols{"**"sv, "//"sv, "<<"sv, ">>"sv, "<="sv, ">="sv, "=="sv,
                                    "!="sv, "+"sv,  "-"sv,  "*"sv,  "/"sv,  "%"sv,  "<"sv,
                                    ">"sv,  "&"sv,  "|"sv,  "^"sv,  "~"sv,  "("sv,  ")"sv,
                                    "["sv,  "]"sv,  ","sv,  ":"sv,  "{"sv,  "}"sv,  "."sv};
constexpr std::array kCSymbols{"&&"sv, "||"sv, "<<"sv, ">>"sv, "<="sv, ">="sv, "=="sv,
                               "!="sv, "+"sv,  "-"sv,  "*"sv,  "/"sv,  "%"sv,  "<"sv,
                               ">"sv,  "&"sv,  "|"sv,  "^"sv,  "~"sv,  "("sv,  ")"sv,
                               "["sv,  "]"sv,  ","sv,  "!"sv,  "?"sv,  ":"sv};
/// Modules whose functions are known by their names alone.
constexpr std::array kModules{"math."sv, "np."sv, "numpy."sv};

class Tokenizer {
 public:
  Tokenizer(std::string_view text, Dialect dialect) : text_(text), dialect_(dialect) {}

  Token next() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
    if (at_ == text_.size()) {
      return take(TokenKind::end, 0);
    }
    const char first = text_[at_];
    if (starts_name(first)) {
      const auto module = std::ranges::find_if(
          kModules, [&](std::string_view one) { return text_.substr(at_).starts_with(one); });
      at_ += module != kModules.end() && starts_name(peek(module->size())) ? module->size() : 0;
      return take(TokenKind::name, length_while(at_, continues_name));
    }
    if (is_digit(first) || (first == '.' && is_digit(peek(1)))) {
      return number();
    }
    return first == '"' || first == '\'' ? quoted() : symbol();
  }

 private:
  char peek(std::size_t ahead) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  template <typename Predicate>
  std::size_t length_while(std::size_t from, Predicate predicate) const {
    std::size_t length = 0;
    while (from + length < text_.size() && predicate(text_[from + length])) {
      ++length;
    }
    return length;
  }

  Token take(TokenKind kind, std::size_t length) {
    const Token token{kind, text_.substr(at_, length), at_ + 1};
    at_ += length;
    return token;
  }

  /// Python's 1_000 and 0b101, C's 64u and 0.5f.
  Token number() {
    const bool is_python = dialect_ == Dialect::python;
    if (text_[at_] == '0' && std::string_view("xXbBoO").find(peek(1)) != std::string_view::npos) {
      return take(TokenKind::integer, length_while(at_, continues_name));
    }
    std::size_t length =
        length_while(at_, [&](char c) { return is_digit(c) || (is_python && c == '_'); });
    const bool begins_with_0 = length > 1 && text_[at_] == '0';
    bool is_real = false;
    if (peek(length) == '.') {
      is_real = true;
      ++length;
      length += length_while(at_ + length, is_digit);
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      const std::size_t sign = peek(length + 1) == '+' || peek(length + 1) == '-' ? 1 : 0;
      const std::size_t digits = length_while(at_ + length + 1 + sign, is_digit);
      is_real = is_real || digits > 0;
      length += digits > 0 ? 1 + sign + digits : 0;
    }
    const std::string_view suffixes = is_python ? "" : is_real ? "fFlL" : "uUlL";
    length += length_while(at_ + length, [&](char c) { return suffixes.find(c) != suffixes.npos; });
    if (continues_name(peek(length))) {
      reject_expression(text_, at_ + 1, "a number is followed by letters");
    }
    if (!is_real && begins_with_0) {
      reject_expression(text_, at_ + 1, "a whole number begins with 0");
    }
    return take(is_real ? TokenKind::real : TokenKind::integer, length);
  }

  Token quoted() {
    const auto close = text_.find(text_[at_], at_ + 1);
    if (close == std::string_view::npos) {
      reject_expression(text_, at_ + 1, "a quoted text does not end");
    }
    const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) {
      reject_expression(text_, at_ + 1, "a quoted text has a backslash, which is not supported");
    }
    const Token token{TokenKind::text, inside, at_ + 1};
    at_ = close + 1;
    return token;
  }

  Token symbol() {
    const auto known = dialect_ == Dialect::python
                           ? std::span<const std::string_view>(kPythonSymbols)
                           : std::span<const std::string_view>(kCSymbols);
    const auto found = std::ranges::find_if(
        known, [&](std::string_view one) { return text_.substr(at_).starts_with(one); });
    if (found == known.end()) {
      reject_expression(text_, at_ + 1, "'" + std::string(1, text_[at_]) + "' is no operator here");
    }
    return take(TokenKind::symbol, found->size());
  }

  std::string_view text_;
  Dialect dialect_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, Dialect dialect) {
  Tokenizer tokenizer(text, dialect);
  std::vector<Token> tokens{tokenizer.next()};
  while (tokens.back().kind != TokenKind::end) {
    tokens.push_back(tokenizer.next());
  }
  return tokens;
}

void reject_expression(std::string_view text, std::size_t column, const std::string& cause) {
  constexpr std::size_t kShown = 120;
  throw Error(ErrorCode::invalid_argument, "expression '" + std::string(text.substr(0, kShown)) +
                                               (text.size() > kShown ? "..." : "") + "', column " +
                                               std::to_string(column) + ": " + cause);
}

}  // namespace swr::kernel_spec
