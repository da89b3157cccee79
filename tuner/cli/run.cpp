// SPDX-License-Identifier: MIT
#include "core/printable.h"
#include "core/reject.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output_file.h"
#include "tuner/cli/terminal_text.h"
#include <swr/error.h>
#include <swr/kernel_spec.h>
#include <swr/version.h>

#include <algorithm>
#include <exception>
#include <ostream>
#include <utility>

namespace swr::cli {
namespace {

/// One line whatever the message holds, e.g. a compiler's log.
std::string one_line(std::string text) {
  text.erase(text.find_last_not_of(" \n\r") + 1);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return printable_line(text);
}

int report_error(std::ostream& err, const Environment& environment, const std::string& message,
                 int exit_code) {
  err << "swr-tune: " << error_label(environment) << " " << one_line(message) << std::endl;
  return exit_code;
}

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
Environment: SWR_DB, SWR_CACHE_DIR, SWR_TEMPLATE_DIR, SWR_NVRTC, SWR_KERNELS, NO_COLOR, COLUMNS (docs/cli.md).)";

void add_commands(CommandLine& line) {
  line.set_version("swr-tune " SWR_VERSION);
  for (const auto add : {add_tune, add_kernel, add_query, add_explain, add_calibrate, add_export,
                         add_kernels, add_devices, add_emit, add_axes, add_plan, add_db, add_judge,
                         add_report, add_watch, add_doctor, add_completion}) {
    add(line);
  }
  line.set_footer(kFooter);
}

/// Options without a command belong to tune; no argument at all asks what there is.
std::vector<std::string> with_command(std::span<const std::string> arguments,
                                      const CommandLine& line) {
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
  } else if (!line.has_command(all[0])) {
    line.reject_command(all[0]);
  }
  const bool is_bare_family = all.size() == 1 && (all[0] == "db" || all[0] == "kernels");
  if (is_bare_family) {
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

bool serves(std::span<const std::string> arguments, const char* role) {
  return !arguments.empty() && arguments[0] == role;
}

/// The kernels of --spec, which are operations of this process from here on.
std::vector<const Operation*> kernels_of(const CommonOptions& common) {
  std::vector<const Operation*> kernels;
  for (const std::filesystem::path& file : common.specs) {
    const Operation* const kernel = &register_kernel(read_kernel_spec(file), file);
    if (std::ranges::find(kernels, kernel) == kernels.end()) {
      kernels.push_back(kernel);
    }
  }
  return kernels;
}

}  // namespace

CommandNode command_tree() {
  CommandLine line("swr-tune", kOverview, 0);
  add_commands(line);
  return line.tree();
}

ParsedCommand parse_command(std::span<const std::string> arguments, std::size_t width) {
  require_values(arguments);
  CommandLine line("swr-tune", kOverview, width);
  add_commands(line);
  const bool measures = serves(arguments, kMeasureWorkerCommand);
  const bool compiles = serves(arguments, kCompileWorkerCommand);
  ParsedCommand parsed =
      line.parse(with_command(arguments.subspan(measures || compiles ? 1 : 0), line));
  if (measures && parsed.measure) {
    parsed.run = parsed.measure;
  } else if (measures || compiles) {
    parsed.run = run_compile_worker;
  }
  parsed.is_worker = measures || compiles;
  return parsed;
}

std::string command_line(const std::string& program, std::span<const std::string> arguments) {
  std::string line = program;
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n'\"\\$") == argument.npos;
    line += plain ? " " + argument : " '" + argument + "'";
  }
  return line;
}

GeneratorOptions generator_options(const Session& session) {
  GeneratorOptions options;
  options.cache_dir =
      session.common.cache_dir ? *session.common.cache_dir : default_cache_dir(session.environment);
  options.shared_cache = session.common.shared_cache;
  if (session.common.templates) {
    options.template_overlay = session.common.templates;
  } else if (session.environment.templates) {
    options.template_overlay = *session.environment.templates;
  }
  if (session.environment.nvrtc) {
    options.nvrtc_library = *session.environment.nvrtc;
  }
  return options;
}

Setting setting(const Session& session) {
  return {.l2_state = session.common.l2_state,
          .overlay_digest = overlay_digest(generator_options(session))};
}

std::filesystem::path database_path(const Session& session) {
  return session.common.database ? *session.common.database : default_database(session.environment);
}

int run_reporting(const std::function<int()>& body, const Environment& environment,
                  std::ostream& err) {
  try {
    return body();
  } catch (const Error& error) {
    const bool bad_value = error.code() == ErrorCode::invalid_argument;
    return report_error(err, environment, error.what(), bad_value ? kExitBadUsage : kExitFailure);
  } catch (const std::filesystem::filesystem_error& error) {
    // Such as of a working directory that was removed.
    const std::string path =
        error.path1().empty() ? "the working directory" : error.path1().string();
    return report_error(err, environment,
                        "cannot use " + path + " (" + error.code().message() +
                            "); name files by paths that are there",
                        kExitFailure);
  } catch (const std::exception& error) {
    return report_error(err, environment, std::string("unexpected: ") + error.what(), kExitFailure);
  }
}

int run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  const auto body = [&] {
    const ParsedCommand command = parse_command(arguments, environment.stdout_width);
    if (!command.run) {
      out << command.help_text;
    }
    int exit_code = kExitSuccess;
    if (command.run) {
      const Session session{.common = command.common,
                            .environment = environment,
                            .command_line = command_line("swr-tune", arguments),
                            .arguments = {arguments.begin(), arguments.end()},
                            .out = out,
                            .err = err,
                            .kernels = kernels_of(command.common)};
      if (!command.is_worker) {
        check_outputs(session);
      }
      exit_code = command.text.is_prose ? run_shown(session, command.run) : command.run(session);
    }
    if (!out.flush()) {
      throw Error(ErrorCode::not_writable, "cannot write to standard output; is the disk full?");
    }
    return exit_code;
  };
  return run_reporting(body, environment, err);
}

}  // namespace swr::cli
