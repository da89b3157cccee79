// SPDX-License-Identifier: MIT
#include "tuner/cli/options/text.h"

#include "core/reject.h"

#include <charconv>

namespace swr::cli {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

int whole_number(const std::string& text, const std::string& option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    reject(option + " takes whole numbers of at most 2147483647, not '" + text + "'");
  }
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(option + " takes whole numbers, not '" + text + "'");
  }
  return value;
}

}  // namespace swr::cli
