// SPDX-License-Identifier: MIT
#include "tuner/cli/options/help.h"

#include "core/text_table.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kNameWidth = 27;

/// A name, and beside it what it means; below it where the name is long.
std::string entry(const std::string& name, const std::string& meaning, std::size_t width) {
  std::string text = std::string(kIndent, ' ') + name;
  const std::string margin(kIndent + kNameWidth, ' ');
  const auto lines = wrap(meaning, std::max(width, 2 * margin.size()) - margin.size());
  const bool fits_beside = text.size() + kIndent <= margin.size();
  text += fits_beside ? std::string(margin.size() - text.size(), ' ') : "\n" + margin;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += (i == 0 ? "" : margin) + lines[i] + "\n";
  }
  return text;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = "\n" + group + ":\n";
    for (const CLI::Option* const option : options) {
      text += make_option(option, is_positional);
    }
    return text;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string type = option->get_items_expected_max() > 0 ? option->get_type_name() : "";
    const std::string name = make_option_name(option, is_positional);
    std::string meaning = option->get_description();
    if (!option->get_default_str().empty()) {
      meaning += " [" + option->get_default_str() + "]";
    }
    meaning += option->get_required() ? " (required)" : "";
    return entry(name + (type.empty() ? "" : " " + type), meaning, width_);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), width_);
  }

  std::string make_description(const CLI::App* app) const override {
    std::string text;
    for (const std::string& line : wrap(app->get_description(), width_)) {
      text += line + "\n";
    }
    return text;
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : "\n" + wrap_lines(footer, width_) + "\n";
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    // CLI11 leaves an empty line more between groups than before the first, and before the footer.
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = text.find("\n\n\n"); at != text.npos; at = text.find("\n\n\n", at)) {
      text.erase(at, 1);
    }
    while (text.ends_with("\n\n")) {
      text.pop_back();
    }
    return text;
  }

 private:
  std::size_t width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width) {
  return std::make_shared<HelpFormatter>(width);
}

}  // namespace swr::cli
