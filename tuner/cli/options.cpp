// SPDX-License-Identifier: MIT
#include "tuner/cli/options.h"

#include "tuner/cli/options/subcommands.h"
#include "tuner/cli/options/text.h"
#include <swr/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace swr::cli {
namespace {

constexpr const char* kOverview =
    R"(Tunes kernels for NVIDIA GPUs: generates variants, compiles them, measures them on the
GPU present or predicts them for one that is not, and stores every result.)";

constexpr const char* kFooter =
    R"(Without a subcommand, tune runs; its options: swr-tune tune --help

Examples:
  swr-tune --gpu gb10 --seq 131072             predict on a GB10, present or not
  swr-tune --seq 4096 --heads 16 --head-dim 128 --causal
                                               measure on the GPU of this machine
  swr-tune --gpu h200 --seq 1024,8192 --tile 64x64,128x64 --order sawtooth --dry-run
  swr-tune query --gpu gb10 --seq 131072       the best stored variant
  swr-tune explain --gpu gb10 --seq 131072     every term of its predicted time and traffic
  swr-tune export --out kernels                cubins and manifest of all winners

Exit codes: 0 success; 1 the environment, GPU, database or compiler failed; 2 bad command line or
values; 130 interrupted by Ctrl-C (what was found is stored and printed).
Environment: SWR_DB, SWR_CACHE_DIR, SWR_TEMPLATE_DIR, SWR_NVRTC, NO_COLOR (docs/cli.md).)";

void add_subcommands(CLI::App& program, Options& options) {
  program.footer(kFooter);
  program.set_version_flag("--version", "swr-tune " SWR_VERSION);
  program.require_subcommand(1);
  // The last of a repeated option wins, as wrappers that append options expect.
  program.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_tune(program, options);
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
  add_study(program, options);
}

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> kCommands{{"tune", Command::tune},
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
                                                        {"db import-t4", Command::import_t4},
                                                        {"db merge", Command::merge},
                                                        {"db export-csv", Command::export_csv},
                                                        {"judge", Command::judge},
                                                        {"report", Command::report},
                                                        {"study", Command::study}};
  return kCommands;
}

/// "tune", or "db record" for a command of two words.
std::string command_name(const CLI::App& program) {
  const CLI::App& command = *program.get_subcommands().front();
  const auto inner = command.get_subcommands();
  return command.get_name() + (inner.empty() ? "" : " " + inner.front()->get_name());
}

/// Options without a subcommand belong to tune.
std::vector<std::string> with_command(std::span<const std::string> arguments) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  const bool about_program =
      !all.empty() && (all[0] == "--help" || all[0] == "-h" || all[0] == "--version");
  if (about_program) {
    return all;
  }
  if (all.empty() || all[0].starts_with("-")) {
    all.insert(all.begin(), "tune");
  } else if (all[0] != "db" && !commands().contains(all[0])) {
    reject("unknown command '" + all[0] + "'; see swr-tune --help");
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

}  // namespace

Options parse_options(std::span<const std::string> arguments) {
  require_values(arguments);
  Options options;
  CLI::App program(kOverview, "swr-tune");
  add_subcommands(program, options);
  const bool measures_for_another = !arguments.empty() && arguments[0] == kMeasureWorkerCommand;
  std::vector<std::string> remaining =
      with_command(arguments.subspan(measures_for_another ? 1 : 0));
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
    reject(std::string(error.what()) + "; see swr-tune --help");
  }
  options.command =
      measures_for_another ? Command::measure_worker : commands().at(command_name(program));
  return options;
}

}  // namespace swr::cli
