// SPDX-License-Identifier: MIT
// The words of CUDA C++, as far as pragmas and the signatures of kernels need them; a grammar is in
// docs/kernel_expressions.md.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

enum class SourceTokenKind {
  word,
  number,
  text,       ///< In quotes, raw or not; with its quotes.
  symbol,     ///< "::", or one character.
  directive,  ///< The # that begins a line of the preprocessor.
  line_end,   ///< Of such a line.
  end,        ///< Of the source.
};

struct SourceToken {
  SourceTokenKind kind = SourceTokenKind::end;
  std::string_view spelling = {};
  std::size_t line = 1;
  bool follows_space = false;  ///< Blanks or a comment stand before it.
  std::size_t branch = 0;      ///< Of the innermost #if or #else, each of which has its own; or 0.

  bool is(std::string_view text) const { return spelling == text && kind != SourceTokenKind::text; }
};

/// Tokens without comments, without lines of #if, and without what #if, #ifdef and #ifndef leave
/// out where swr knows the condition; of other conditions both branches are there.
class SourceTokens {
 public:
  explicit SourceTokens(std::string_view source);
  SourceTokens(const SourceTokens&) = delete;
  SourceTokens& operator=(const SourceTokens&) = delete;

  /// The last one is the end. Spellings live as long as this.
  const std::vector<SourceToken>& tokens() const { return tokens_; }

 private:
  std::string text_;  ///< With lines joined where a backslash says so.
  std::vector<SourceToken> tokens_;
};

/// The spellings, one space apart where blanks were.
std::string text_of(const SourceToken* begin, const SourceToken* end);

}  // namespace swr::kernel_spec
