// SPDX-License-Identifier: MIT
#include "tuner/cli/options.h"

#include "tuner/cli/options/command_tree.h"
#include "tuner/cli/options/help.h"
#include "tuner/cli/options/subcommands.h"
#include "tuner/cli/options/suggest.h"
#include "tuner/cli/options/text.h"
#include <swr/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace swr::cli {
namespace {

constexpr const char* kOverview =
    "Tunes kernels for NVIDIA GPUs: generates variants, compiles them, measures them on the GPU "
    "present or predicts them for one that is not, and stores every result.";

constexpr const char* kFooter =
    R"(Options without a command are those of tune: swr-tune tune --help

Examples:
  swr-tune --gpu gb10 --seq 131072          predict on a GB10, present or not
  swr-tune --seq 4096 --head-dim 128        measure on the GPU of this machine
  swr-tune query --gpu gb10 --seq 131072    the best stored variant
  swr-tune explain --gpu gb10 --seq 131072  what it needs and what limits it
  swr-tune export --out kernels             cubins and manifest of all winners

Exit codes: 0 success; 1 the environment, GPU, database or compiler failed; 2 bad command line or values; 130 interrupted by Ctrl-C (what was found is stored and printed).
Environment: SWR_DB, SWR_CACHE_DIR, SWR_TEMPLATE_DIR, SWR_NVRTC, NO_COLOR, COLUMNS (docs/cli.md).)";

/// What belongs together in the list of commands.
void group(CLI::App& program, const char* name, std::initializer_list<const char*> commands) {
  for (const char* const command : commands) {
    program.get_subcommand(command)->group(name);
  }
}

void add_subcommands(CLI::App& program, Options& options, std::size_t width) {
  program.formatter(help_formatter(width));
  program.set_version_flag("--version", "swr-tune " SWR_VERSION, "Print the version");
  program.require_subcommand(1);
  // The last of a repeated option wins, as wrappers that append options expect.
  program.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_tune(program, options);
  add_kernel(program, options);
  add_query(program, options);
  add_explain(program, options);
  add_calibrate(program, options);
  add_export(program, options);
  add_devices(program, options);
  add_emit(program, options);
  add_axes(program, options);
  add_plan(program, options);
  add_db(program, options);
  add_judge(program, options);
  add_report(program, options);
  add_watch(program, options);
  add_doctor(program, options);
  add_completion(program, options);
  add_man_page(program, options);
  group(program, "Tune", {"tune", "kernel", "watch", "plan", "axes"});
  group(program, "Ask what is stored", {"query", "explain", "report"});
  group(program, "Use it elsewhere", {"export", "emit", "db"});
  group(program, "GPUs and this machine", {"devices", "calibrate", "doctor", "completion"});
  group(program, "Experiments", {"judge"});
  program.footer(kFooter);  // After the commands, each of which would begin with a copy.
}

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> kCommands{{"tune", Command::tune},
                                                        {"kernel", Command::kernel},
                                                        {"query", Command::query},
                                                        {"explain", Command::explain},
                                                        {"calibrate", Command::calibrate},
                                                        {"export", Command::export_results},
                                                        {"devices", Command::devices},
                                                        {"emit", Command::emit},
                                                        {"axes", Command::axes},
                                                        {"plan", Command::plan},
                                                        {"db record", Command::record},
                                                        {"db export-t4", Command::export_t4},
                                                        {"db import", Command::import_results},
                                                        {"db merge", Command::merge},
                                                        {"db export-csv", Command::export_csv},
                                                        {"judge", Command::judge},
                                                        {"report", Command::report},
                                                        {"watch", Command::watch},
                                                        {"doctor", Command::doctor},
                                                        {"completion", Command::completion},
                                                        {kManPageCommand, Command::man_page}};
  return kCommands;
}

/// "tune", or "db record" for a command of two words.
std::string command_name(const CLI::App& program) {
  const CLI::App& command = *program.get_subcommands().front();
  const auto inner = command.get_subcommands();
  return command.get_name() + (inner.empty() ? "" : " " + inner.front()->get_name());
}

std::vector<std::string> names_of(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  for (const CommandNode& command : commands) {
    names.push_back(command.name);
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<OptionNode>& options) {
  std::vector<std::string> names;
  for (const OptionNode& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

/// "; did you mean --causal?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& words) {
  const auto nearest = nearest_word(word, words);
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

[[noreturn]] void reject_command(const std::string& typed, const CLI::App& parent) {
  reject("unknown command '" + typed + "'" +
         suggestion(typed, names_of(command_node(parent).commands)) + "; see " + parent.get_name() +
         " --help");
}

/// Options without a subcommand belong to tune; no argument at all asks what there is.
std::vector<std::string> with_command(std::span<const std::string> arguments,
                                      const CLI::App& program) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  if (all.empty()) {
    return {"--help"};
  }
  const bool asks_for_help = all[0] == "help" && all.size() > 1;
  if (asks_for_help) {
    all.erase(all.begin());
    all.emplace_back("--help");
  }
  const bool about_program =
      all[0] == "--help" || all[0] == "-h" || all[0] == "help" || all[0] == "--version";
  if (about_program) {
    return {all[0] == "--version" ? "--version" : "--help"};
  }
  if (all[0].starts_with("-")) {
    all.insert(all.begin(), "tune");
  } else if (all[0] != "db" && !commands().contains(all[0])) {
    reject_command(all[0], program);
  }
  const bool is_bare_db = all.size() == 1 && all[0] == "db";
  if (is_bare_db) {
    all.emplace_back("--help");
  }
  return all;
}

/// `--heads "$UNSET"` would otherwise mean the default, and an empty path the working folder.
void require_values(std::span<const std::string> arguments) {
  std::string option = "an argument";
  for (const std::string& argument : arguments) {
    const bool is_option = argument.starts_with("--");
    if (argument.empty() || (is_option && argument.ends_with('='))) {
      reject((argument.empty() ? option : argument.substr(0, argument.size() - 1)) +
             " has an empty value; name one, or leave the option out");
    }
    option = is_option ? argument : option;
  }
}

/// The innermost command that was recognised, and its name as it is typed.
std::pair<const CLI::App*, std::string> innermost(const CLI::App& program) {
  const CLI::App* app = &program;
  std::string name = program.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return {app, name};
}

/// An option or a command that nobody knows is the mistake, whatever else is missing because of it.
[[noreturn]] void reject_parse(const CLI::App& program, const CLI::ParseError& error) {
  const auto [app, name] = innermost(program);
  const auto unknown = program.remaining(true);
  const auto option = std::ranges::find_if(
      unknown, [](const std::string& word) { return word.size() > 1 && word.starts_with("-"); });
  if (option != unknown.end()) {
    const std::string word = option->substr(0, option->find('='));
    reject("unknown option " + word + suggestion(word, names_of(command_node(*app).options)) +
           "; see " + name + " --help");
  }
  const bool has_commands = !command_node(*app).commands.empty();
  if (has_commands && !unknown.empty()) {
    reject("unknown command '" + unknown.front() + "'" +
           suggestion(unknown.front(), names_of(command_node(*app).commands)) + "; see " + name +
           " --help");
  }
  if (!unknown.empty()) {
    reject("'" + unknown.front() + "' is more than " + name + " takes; see " + name + " --help");
  }
  reject(std::string(error.what()) + "; see " + name + " --help");
}

/// What a process does for the command that started it and whose arguments it got; empty for
/// others.
std::optional<Command> work_for_another(std::span<const std::string> arguments) {
  if (arguments.empty()) {
    return std::nullopt;
  }
  if (arguments[0] == kMeasureWorkerCommand) {
    return Command::measure_worker;
  }
  return arguments[0] == kCompileWorkerCommand ? std::optional(Command::compile_worker)
                                               : std::nullopt;
}

}  // namespace

CommandNode command_tree() {
  Options options;
  CLI::App program(kOverview, "swr-tune");
  add_subcommands(program, options, kHelpWidth);
  return command_node(program);
}

Options parse_options(std::span<const std::string> arguments, std::size_t width) {
  require_values(arguments);
  Options options;
  CLI::App program(kOverview, "swr-tune");
  add_subcommands(program, options, width > 0 ? width : kHelpWidth);
  const std::optional<Command> for_another = work_for_another(arguments);
  std::vector<std::string> remaining =
      with_command(arguments.subspan(for_another ? 1 : 0), program);
  std::reverse(remaining.begin(), remaining.end());  // CLI11 takes them from the back.
  try {
    program.parse(remaining);
  } catch (const CLI::CallForHelp&) {
    options.help_text = program.help();
    return options;
  } catch (const CLI::CallForVersion& version) {
    options.help_text = std::string(version.what()) + "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    reject_parse(program, error);
  }
  options.command = for_another ? *for_another : commands().at(command_name(program));
  return options;
}

}  // namespace swr::cli
