// SPDX-License-Identifier: MIT
#include "tuner/cli/command_line.h"

#include "core/operation.h"
#include "core/reject.h"
#include "core/text_table.h"
#include "model/profile/gpu_profile.h"
#include "tuner/cli/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <type_traits>

namespace swr::cli {
namespace {

constexpr std::size_t kUsualWidth = 100;  ///< Where nobody says how wide lines may be.

/// How the help looks: options by group, each with its type, meaning and default, broken to the
/// width. What excludes what is not listed: the error that it leads to says it.
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
    return entry(name + (type.empty() ? "" : " " + type), meaning);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
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
  /// A name, and beside it what it means; below it where the name is long.
  std::string entry(const std::string& name, const std::string& meaning) const {
    constexpr std::size_t kIndent = 2;
    constexpr std::size_t kNameWidth = 27;
    std::string text = std::string(kIndent, ' ') + name;
    const std::string margin(kIndent + kNameWidth, ' ');
    const auto lines = wrap(meaning, std::max(width_, 2 * margin.size()) - margin.size());
    const bool fits_beside = text.size() + kIndent <= margin.size();
    text += fits_beside ? std::string(margin.size() - text.size(), ' ') : "\n" + margin;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += (i == 0 ? "" : margin) + lines[i] + "\n";
    }
    return text;
  }

  std::size_t width_;
};

/// CLI11 writes "TYPE:{a,b}" for an option that takes one of a list.
std::vector<std::string> words_in_braces(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == type.npos || end == type.npos) {
    return {};
  }
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

std::vector<std::string> axis_values(const std::string& option_name) {
  std::string axis_name =
      option_name.substr(std::min(option_name.find_first_not_of('-'), option_name.size()));
  std::ranges::replace(axis_name, '-', '_');
  std::vector<std::string> values;
  for (const Operation* const operation : operations_of_swr()) {
    for (const Axis& axis : axes(*operation)) {
      for (const auto spelling :
           axis.name == axis_name ? axis.spellings : decltype(axis.spellings){}) {
        if (std::ranges::find(values, spelling) == values.end()) {
          values.emplace_back(spelling);
        }
      }
    }
  }
  return values;
}

/// Of options that read their text themselves; none of others.
std::vector<std::string> values_read(const std::string& option_name) {
  if (option_name == "--l2") {
    return {"warm", "cold"};
  }
  if (option_name == "--strategy") {
    return {"exhaustive", "random", "model", "learned"};
  }
  std::vector<std::string> values;
  for (const Operation* const operation : operations_of_swr()) {
    if (option_name == "--op") {
      values.emplace_back(operation->name());
    }
    for (const ProblemField& field : operation->fields()) {
      for (const auto spelling : field.is_text() && "--" + std::string(field.option) == option_name
                                     ? field.spellings
                                     : decltype(field.spellings){}) {
        if (std::ranges::find(values, spelling) == values.end()) {
          values.emplace_back(spelling);
        }
      }
    }
  }
  return values;
}

std::vector<std::string> values_of(const CLI::Option& option, const OptionNode& node) {
  if (auto words = words_in_braces(option.get_type_name()); !words.empty()) {
    return words;
  }
  if (node.type == "GPU") {
    return profile_ids();
  }
  if (!node.takes_value) {
    return {};
  }
  auto values = values_read(node.names.back());
  return values.empty() ? axis_values(node.names.back()) : values;
}

/// Whether an option is a field or an axis of the operation.
bool has_option(const Operation& operation, std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  const auto is_field = [&](const ProblemField& field) { return field.option == name; };
  const bool is_asked = std::ranges::any_of(operation.fields(), is_field);
  std::ranges::replace(name, '-', '_');
  return is_asked || find_axis(operation, name) != nullptr;
}

/// Where --op is given, the help has no options that are other operations' alone.
void hide_other_operations(CLI::App& app) {
  const CLI::Option* const op = app.get_option_no_throw("--op");
  const Operation* const asked = op == nullptr || op->results().empty()
                                     ? nullptr
                                     : find_operation_or_null(op->results().back());
  for (CLI::Option* const option : app.get_options([](const CLI::Option*) { return true; })) {
    const std::string name = option->get_name();
    const bool is_some = std::ranges::any_of(
        operations_of_swr(), [&](const Operation* one) { return has_option(*one, name); });
    if (asked != nullptr && is_some && !has_option(*asked, name)) {
      option->group("");
    }
  }
}

OptionNode option_node(const CLI::Option& option) {
  OptionNode node;
  node.is_positional = option.get_positional();
  for (const std::string& name : option.get_snames()) {
    node.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    node.names.push_back("--" + name);
  }
  if (node.names.empty()) {
    node.names.push_back(option.get_name(true));
  }
  node.takes_value = option.get_items_expected_max() > 0;
  node.is_required = option.get_required();
  const std::string type = node.takes_value ? option.get_type_name() : "";
  node.type = type.substr(0, type.find(':'));
  node.meaning = option.get_description();
  node.usual = option.get_default_str();
  node.group = option.get_group();
  node.values = values_of(option, node);
  return node;
}

CommandNode command_node(const CLI::App& app) {
  CommandNode node{.name = app.get_name(),
                   .meaning = app.get_description(),
                   .group = app.get_group(),
                   .footer = app.get_footer(),
                   .options = {},
                   .commands = {}};
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_group().empty()) {
      node.options.push_back(option_node(*option));
    }
  }
  for (const CLI::App* const inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (inner->get_name().empty()) {
      // A group of options, which are the command's own.
      auto options = command_node(*inner).options;
      node.options.insert(node.options.end(), options.begin(), options.end());
    } else if (!inner->get_group().empty()) {
      node.commands.push_back(command_node(*inner));
    }
  }
  return node;
}

/// The names of commands or of options.
template <typename Node>
std::vector<std::string> names_of(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  for (const Node& node : nodes) {
    if constexpr (std::is_same_v<Node, OptionNode>) {
      names.insert(names.end(), node.names.begin(), node.names.end());
    } else {
      names.push_back(node.name);
    }
  }
  return names;
}

/// The innermost command that was recognised, and its name as it is typed.
std::pair<CLI::App*, std::string> innermost(CLI::App& program) {
  CLI::App* app = &program;
  std::string name = program.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return {app, name};
}

/// An option or a command that nobody knows is the mistake, whatever else is missing because of it.
[[noreturn]] void reject_parse(CLI::App& program, const CLI::ParseError& error) {
  const auto [app, name] = innermost(program);
  const CommandNode node = command_node(*app);
  const auto unknown = program.remaining(true);
  const auto option = std::ranges::find_if(
      unknown, [](const std::string& word) { return word.size() > 1 && word.starts_with("-"); });
  if (option != unknown.end()) {
    const std::string word = option->substr(0, option->find('='));
    reject("unknown option " + word + suggestion(word, names_of(node.options)) + "; see " + name +
           " --help");
  }
  if (!node.commands.empty() && !unknown.empty()) {
    reject("unknown command '" + unknown.front() + "'" +
           suggestion(unknown.front(), names_of(node.commands)) + "; see " + name + " --help");
  }
  if (!unknown.empty()) {
    reject("'" + unknown.front() + "' is more than " + name + " takes; see " + name + " --help");
  }
  reject(std::string(error.what()) + "; see " + name + " --help");
}

/// "--out FILE" as name and type.
std::pair<std::string, std::string> name_and_type(const std::string& text) {
  const std::size_t space = text.find(' ');
  return {text.substr(0, space), space == text.npos ? "" : text.substr(space + 1)};
}

template <typename Value>
constexpr bool kIsList = false;
template <typename Value>
constexpr bool kIsList<std::vector<Value>> = true;

}  // namespace

CommonOptions& OptionList::common() { return line_->common_; }

template <typename Value>
CLI::Option* OptionList::add(const std::string& name_text, Value& value, const std::string& meaning,
                             const OptionTraits& traits) {
  const auto [name, type] = name_and_type(name_text);
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<Value, bool>) {
    option = app_->add_flag(name, value, meaning);
  } else {
    option = app_->add_option(name, value, meaning);
    if constexpr (kIsList<Value>) {
      if (name.starts_with("-")) {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      }
      if (!type.ends_with("...")) {
        option->expected(1);
      }
    }
    if (traits.shows_usual) {
      option->capture_default_str();
    }
  }
  return finish(option, type, traits);
}

template CLI::Option* OptionList::add(const std::string&, bool&, const std::string&,
                                      const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, int&, const std::string&,
                                      const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::size_t&, const std::string&,
                                      const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, unsigned long long&, const std::string&,
                                      const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::optional<long long>&,
                                      const std::string&, const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::string&, const std::string&,
                                      const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::filesystem::path&,
                                      const std::string&, const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::optional<std::filesystem::path>&,
                                      const std::string&, const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::vector<std::string>&,
                                      const std::string&, const OptionTraits&);
template CLI::Option* OptionList::add(const std::string&, std::vector<std::filesystem::path>&,
                                      const std::string&, const OptionTraits&);

CLI::Option* OptionList::add_call(const std::string& name_text,
                                  std::function<void(const std::string&)> read,
                                  const std::string& meaning, const OptionTraits& traits) {
  const auto [name, type] = name_and_type(name_text);
  CLI::Option* const option =
      app_->add_option_function<std::string>(name, std::move(read), meaning);
  if (!traits.usual.empty()) {
    option->default_str(traits.usual);
  }
  return finish(option, type, traits);
}

CLI::Option* OptionList::add_flag(const std::string& name, std::function<void()> set,
                                  const std::string& meaning, const OptionTraits& traits) {
  return finish(app_->add_flag_callback(name, std::move(set), meaning), "", traits);
}

CLI::Option* OptionList::finish(CLI::Option* option, const std::string& type,
                                const OptionTraits& traits) {
  if (!type.empty()) {
    option->type_name(type);
  }
  if (!traits.group.empty()) {
    option->group(traits.group);
  }
  option->required(traits.is_required);
  if (traits.at_least) {
    // CLI11's own description would repeat the range in every line of the help.
    option->check(CLI::Range(*traits.at_least, traits.at_most).description(""));
  }
  if (!traits.words.empty()) {
    option->check(CLI::IsMember(traits.words));
  }
  if (traits.excludes != nullptr) {
    option->excludes(traits.excludes);
  }
  if (traits.needs != nullptr) {
    option->needs(traits.needs);
  }
  line_->files_.emplace_back(option, traits.role);
  return option;
}

bool OptionList::has(const std::string& name) const {
  return app_->get_option_no_throw(name) != nullptr;
}

void OptionList::exclude_all_but(CLI::Option* option, const std::set<std::string>& usable) {
  for (CLI::Option* const other : app_->get_options([&](const CLI::Option* one) {
         return one != option && !usable.contains(one->get_name());
       })) {
    option->excludes(other);
  }
}

void OptionList::need(CLI::Option* one, CLI::Option* other) { one->needs(other); }

CommandLine::CommandLine(const std::string& program, const std::string& overview, std::size_t width)
    : app_(std::make_unique<CLI::App>(overview, program)) {
  app_->formatter(std::make_shared<HelpFormatter>(width > 0 ? width : kUsualWidth));
  // The last of a repeated option wins, as wrappers that append options expect.
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CommandLine::~CommandLine() = default;

OptionList CommandLine::add(ParsedCommand command) {
  const auto [first, second] = name_and_type(command.text.name);
  CLI::App& parent = second.empty() ? *app_ : *app_->get_subcommand(first);
  CLI::App& app = *parent.add_subcommand(second.empty() ? first : second, command.text.meaning);
  if (!command.text.alias.empty()) {
    app.alias(command.text.alias);
  }
  app.footer(command.text.footer);
  // Without a group of its own it would have its family's.
  app.group(command.text.group.empty() && !command.text.is_hidden ? "Subcommands"
                                                                  : command.text.group);
  commands_.emplace_back(&app, std::move(command));
  return {app, *this};
}

void CommandLine::add_family(const CommandText& text) {
  CLI::App& app = *app_->add_subcommand(text.name, text.meaning);
  app.require_subcommand(1);
  app.group(text.group);
}

void CommandLine::set_footer(const std::string& footer) { app_->footer(footer); }
void CommandLine::set_version(const std::string& text) {
  app_->set_version_flag("--version", text, "Print the version");
}

OptionList CommandLine::own() { return {*app_, *this}; }

ParsedCommand CommandLine::parse(std::vector<std::string> words) {
  app_->require_subcommand(commands_.empty() ? 0 : 1);
  std::ranges::reverse(words);  // CLI11 takes them from the back.
  try {
    app_->parse(words);
  } catch (const CLI::CallForHelp&) {
    hide_other_operations(*innermost(*app_).first);
    return {.help_text = app_->help()};
  } catch (const CLI::CallForVersion& version) {
    return {.help_text = std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    reject_parse(*app_, error);
  }
  ParsedCommand parsed;
  for (const auto& [app, command] : commands_) {
    if (app == innermost(*app_).first) {
      parsed = command;
    }
  }
  for (const auto& [option, role] : files_) {
    auto& files = role == FileRole::input             ? common_.inputs
                  : role == FileRole::output          ? common_.outputs
                  : role == FileRole::replaced_folder ? common_.replaced_folders
                                                      : common_.queues;
    if (role != FileRole::other) {
      const auto& given = option->results();
      files.insert(files.end(), given.begin(), given.end());
    }
  }
  parsed.common = common_;
  return parsed;
}

CommandNode CommandLine::tree() const { return command_node(*app_); }

bool CommandLine::has_command(const std::string& name) const {
  return !app_->get_subcommands([&](const CLI::App* one) { return one->get_name() == name; })
              .empty();
}

void CommandLine::reject_command(const std::string& typed) const {
  reject("unknown command '" + typed + "'" + suggestion(typed, names_of(tree().commands)) +
         "; see " + app_->get_name() + " --help");
}

std::string suggestion(const std::string& word, const std::vector<std::string>& words) {
  const auto nearest = nearest_word(word, words);
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

}  // namespace swr::cli
