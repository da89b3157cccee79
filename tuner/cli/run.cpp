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
#include <charconv>
#include <cstdlib>
#include <exception>
#include <new>
#include <ostream>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr::cli {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

std::map<std::string, std::string> launcher_variables() {
  std::map<std::string, std::string> variables;
  for (const char* name :
       {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
        "SLURM_ARRAY_TASK_STEP", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"}) {
    if (auto value = variable(name)) {
      variables.emplace(name, std::move(*value));
    }
  }
  return variables;
}

std::filesystem::path user_dir(const std::optional<std::string>& xdg,
                               const std::optional<std::string>& home, const char* below_home,
                               const char* advice) {
  if (xdg) {
    return *xdg;
  }
  if (home) {
    return std::filesystem::path(*home) / below_home;
  }
  reject(std::string("HOME is not set, so there is no default place; ") + advice);
}

/// Characters of a line; 0 for what is no terminal.
std::size_t width_of(int file) {
  if (isatty(file) != 1) {
    return 0;
  }
  winsize size{};
  const bool is_known = ioctl(file, TIOCGWINSZ, &size) == 0;
  return terminal_width(variable("COLUMNS"), is_known ? size.ws_col : 0U);
}

}  // namespace

std::size_t terminal_width(const std::optional<std::string>& columns, std::size_t own) {
  constexpr std::size_t kUsual = 80;
  constexpr std::size_t kLeast = 20;
  const std::string text = columns.value_or("");
  std::size_t asked = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), asked);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (is_number && asked >= kLeast) {
    return asked;
  }
  return own >= kLeast ? own : kUsual;
}

Environment read_environment() {
  return {.database = variable("SWR_DB"),
          .cache_dir = variable("SWR_CACHE_DIR"),
          .templates = variable("SWR_TEMPLATE_DIR"),
          .nvrtc = variable("SWR_NVRTC"),
          .python = variable("SWR_PYTHON"),
          .xdg_data_home = variable("XDG_DATA_HOME"),
          .xdg_cache_home = variable("XDG_CACHE_HOME"),
          .xdg_state_home = variable("XDG_STATE_HOME"),
          .home = variable("HOME"),
          .visible_gpus = variable("CUDA_VISIBLE_DEVICES"),
          .launcher = launcher_variables(),
          .no_color = variable("NO_COLOR").has_value(),
          .stdout_is_terminal = isatty(STDOUT_FILENO) == 1,
          .stderr_is_terminal = isatty(STDERR_FILENO) == 1,
          .stdout_width = width_of(STDOUT_FILENO),
          .stderr_width = width_of(STDERR_FILENO)};
}

std::filesystem::path default_database(const Environment& environment) {
  if (environment.database) {
    return *environment.database;
  }
  return user_dir(environment.xdg_data_home, environment.home, ".local/share",
                  "pass --db FILE or set SWR_DB") /
         "swr" / "tuned.db";
}

std::filesystem::path default_cache_dir(const Environment& environment) {
  if (environment.cache_dir) {
    return *environment.cache_dir;
  }
  return user_dir(environment.xdg_cache_home, environment.home, ".cache",
                  "pass --cache-dir DIR or set SWR_CACHE_DIR") /
         "swr";
}

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
  } catch (const std::bad_alloc&) {
    return report_error(err, environment, "there is not enough memory; see `ulimit -v`",
                        kExitFailure);
  } catch (const std::system_error& error) {  // Of a thread that cannot be made.
    return report_error(
        err, environment,
        std::string("the system refuses what is needed (") + error.what() + "); see `ulimit -a`",
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
