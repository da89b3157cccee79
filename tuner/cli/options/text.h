// SPDX-License-Identifier: MIT
// Reading the values of options, which come as text.
#pragma once

#include "core/reject.h"

#include <string>
#include <vector>

namespace swr::cli {

/// The parts of a list; one empty part for an empty text.
std::vector<std::string> split(const std::string& text, char separator);

/// Throws: Error{invalid_argument} naming the option, for anything but a whole number of an int.
int whole_number(const std::string& text, const std::string& option);

}  // namespace swr::cli
