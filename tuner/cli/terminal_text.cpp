// SPDX-License-Identifier: MIT
#include "tuner/cli/terminal_text.h"

#include "core/ascii.h"
#include "core/text_table.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <sstream>

namespace swr::cli {
namespace {

constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
/// Back to the usual colour; bold, where it is on, stays.
constexpr std::string_view kUsual = "\x1b[39m";

struct Meaning {
  std::string_view word;
  std::string_view colour;
};

constexpr std::array kMeanings{
    Meaning{"predicted", kYellow}, Meaning{"Predicted", kYellow}, Meaning{"measured", kGreen},
    Meaning{"Measured", kGreen},   Meaning{"failed", kRed},       Meaning{"crash", kRed},
    Meaning{"timeout", kRed},      Meaning{"interrupted", kRed},  Meaning{"default_only", kYellow},
    Meaning{"modelled", kYellow},  Meaning{"broken", kRed}};

bool is_of_word(char c) {
  return ascii::is_alphanumeric(c) || c == '_' || c == '-' || c == '/' || c == '.';
}

/// The colour of the word that begins the text; empty for none.
std::string_view colour_of(std::string_view word) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.word == word) {
      return meaning.colour;
    }
  }
  return {};
}

}  // namespace

std::string paint(std::string_view text) {
  std::string painted;
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && is_of_word(text[end])) {
      ++end;
    }
    // A full stop that ends a sentence is not of the word.
    const std::size_t dot = end > 0 && text[end - 1] == '.' ? 1 : 0;
    const std::string_view word = text.substr(0, end - dot);
    const std::string_view colour = colour_of(word);
    painted += colour;
    painted += word;
    painted += colour.empty() ? "" : kUsual;
    const std::size_t taken = std::max<std::size_t>(word.size(), 1);
    painted += word.empty() ? text.substr(0, 1) : "";
    text.remove_prefix(taken);
  }
  return painted;
}

std::string painted_for(const Environment& environment, std::string_view text) {
  const bool is_coloured = environment.stdout_is_terminal && !environment.no_color;
  return is_coloured ? paint(text) : std::string(text);
}

int run_shown(const Session& session, const std::function<int(const Session&)>& command) {
  if (session.common.json || !session.environment.stdout_is_terminal) {
    return command(session);
  }
  std::ostringstream text;
  const Session inner{.common = session.common,
                      .environment = session.environment,
                      .command_line = session.command_line,
                      .arguments = session.arguments,
                      .out = text,
                      .err = session.err,
                      .kernels = session.kernels};
  const int exit_code = command(inner);
  const Environment& environment = session.environment;
  session.out << painted_for(environment, wrap_lines(text.str(), environment.stdout_width));
  return exit_code;
}

std::string error_label(const Environment& environment) {
  const bool is_coloured = environment.stderr_is_terminal && !environment.no_color;
  return is_coloured ? std::string(kRed) + "error:" + std::string(kUsual) : "error:";
}

}  // namespace swr::cli
