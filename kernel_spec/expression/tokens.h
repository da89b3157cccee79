// SPDX-License-Identifier: MIT
// The words of an expression.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

/// How an expression is spelled and what its division means.
enum class Dialect {
  python,  ///< As in T1 files.
  c,       ///< As in pragmas: && || ! ?: and C's division.
};

enum class TokenKind { name, integer, real, text, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view spelling;  ///< Into the expression's text; of text without its quotes.
  std::size_t column = 0;     ///< Counted from 1.
};

/// The last one is the end. Throws: Error{invalid_argument} naming the column of what is no word.
std::vector<Token> tokens_of(std::string_view text, Dialect dialect);

/// Throws: Error{invalid_argument}: `text` cannot be read as an expression because of `cause`.
[[noreturn]] void reject_expression(std::string_view text, std::size_t column,
                                    const std::string& cause);

}  // namespace swr::kernel_spec
