// SPDX-License-Identifier: MIT
// What a host program may have set: a decimal comma, dots between thousands, an "I" whose lower
// case is no "i", in C and in C++.
#pragma once

#include "tests/support/temp_directory.h"

#include <clocale>
#include <cstdlib>
#include <locale>
#include <stdexcept>
#include <string>

namespace swr {

class StrangeLocale {
 public:
  /// `point` is the decimal point: a character, or one like <U066B> where the machine knows UTF-8.
  explicit StrangeLocale(const std::string& point = ",") {
    const auto source = directory_.write("source", R"(comment_char %
escape_char /
LC_NUMERIC
decimal_point ")" + point + R"("
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_CTYPE
upper <U0041>..<U005A>
lower <U0061>..<U007A>
tolower (<U0049>,<U0079>);(<U0058>,<U0078>)
toupper (<U0069>,<U0059>);(<U0078>,<U0058>)
END LC_CTYPE
)");
    // glibc's own compiler of locales, which every Debian has; it warns of what is left out.
    const std::string made = "cd " + directory_.path().string() + " && localedef -c " +
                             (point.size() > 1 ? "-f UTF-8 " : "") +
                             "-i source ./strange >/dev/null 2>&1";
    [[maybe_unused]] const int warned = std::system(made.c_str());
    setenv("LOCPATH", directory_.path().c_str(), 1);
    if (std::setlocale(LC_NUMERIC, "strange") == nullptr ||
        std::setlocale(LC_CTYPE, "strange") == nullptr) {
      throw std::runtime_error("localedef made no locale of " + source.string());
    }
    std::locale::global(std::locale(std::locale::classic(), new Comma));
  }
  ~StrangeLocale() {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
  }
  StrangeLocale(const StrangeLocale&) = delete;
  StrangeLocale& operator=(const StrangeLocale&) = delete;

 private:
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  TempDirectory directory_;
};

}  // namespace swr
