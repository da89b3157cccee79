// SPDX-License-Identifier: MIT
// Arguments of the program as a person writes them.
#pragma once

#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace swr::test {

class Arguments : public std::vector<std::string> {
 public:
  Arguments() = default;
  /// The words between blanks.
  Arguments(const std::string& line) {
    std::istringstream words(line);
    assign(std::istream_iterator<std::string>(words), {});
  }
  Arguments(const char* line) : Arguments(std::string(line)) {}
  /// Each as it is, blanks and all.
  Arguments(std::initializer_list<std::string> words) : vector(words) {}

  Arguments& operator+=(const Arguments& more) {
    insert(end(), more.begin(), more.end());
    return *this;
  }
  friend Arguments operator+(Arguments first, const Arguments& more) { return first += more; }
};

}  // namespace swr::test
