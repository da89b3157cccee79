// SPDX-License-Identifier: MIT
// How the help of the program and of its commands looks.
#pragma once

#include <cstddef>
#include <memory>

namespace CLI {
class FormatterBase;
}

namespace swr::cli {

/// Widest line of the help where nobody says how wide lines may be.
inline constexpr std::size_t kHelpWidth = 100;

/// Options by group, each with its type, meaning and default, broken to the width. What excludes
/// what is not listed: the error that it leads to says it.
std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width);

}  // namespace swr::cli
