// SPDX-License-Identifier: MIT
// Text for a terminal of known width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// The text in lines of at most `width` characters, broken at spaces; a longer word has a line of
/// its own and stays whole, so that keys and paths can be copied. 0 is any width.
/// Requires: the text is one line.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

/// Every line of the text that is too long, broken as above; what follows is indented as the line
/// is and by two more. 0 leaves the text as it is.
std::string wrap_lines(std::string_view text, std::size_t width);

}  // namespace swr
