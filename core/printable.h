// SPDX-License-Identifier: MIT
// Text from outside made safe for terminals and logs: names of devices, logs of compilers and
// whatever else a file or a driver says. The readers of files and databases pass every text
// through here, so that whoever prints need not think of it.
#pragma once

#include <string>
#include <string_view>

namespace swr {

/// The text with a question mark in the place of every character that could command a terminal or
/// hide what is written: control characters, marks that turn the direction of writing, and bytes
/// that are no UTF-8. Line breaks and tabs stay.
std::string printable(std::string_view text);

/// The same for names, which have neither line breaks nor tabs.
std::string printable_line(std::string_view text);

}  // namespace swr
