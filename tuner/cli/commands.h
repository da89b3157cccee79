// SPDX-License-Identifier: MIT
// What a program is given by its environment, what each command is given, and where all commands
// are listed. Results go to `out`, progress and notes to `err`.
#pragma once

#include "tuner/cli/command_line.h"
#include <swr/generator.h>
#include <swr/store.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr::cli {

// Everything the program takes from outside its command line, read once.

struct Environment {
  std::optional<std::string> database;        ///< SWR_DB
  std::optional<std::string> cache_dir;       ///< SWR_CACHE_DIR
  std::optional<std::string> templates;       ///< SWR_TEMPLATE_DIR
  std::optional<std::string> nvrtc;           ///< SWR_NVRTC
  std::optional<std::string> python;          ///< SWR_PYTHON
  std::optional<std::string> xdg_data_home;   ///< XDG_DATA_HOME
  std::optional<std::string> xdg_cache_home;  ///< XDG_CACHE_HOME
  std::optional<std::string> xdg_state_home;  ///< XDG_STATE_HOME
  std::optional<std::string> home;            ///< HOME
  std::optional<std::string> visible_gpus;    ///< CUDA_VISIBLE_DEVICES
  /// The variables by which Slurm, Open MPI and PMI tell a process which of several it is.
  std::map<std::string, std::string> launcher;
  bool no_color = false;  ///< NO_COLOR is set and not empty.
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  /// Characters of a line of the terminal: COLUMNS, else what the terminal says; 0 for any number,
  /// which is so for files and pipes whatever COLUMNS says.
  std::size_t stdout_width = 0;
  std::size_t stderr_width = 0;
};

/// Width of a terminal from the value of COLUMNS and from the terminal's own size in characters (0:
/// not known). Values of no sense count as absent; without both 80.
std::size_t terminal_width(const std::optional<std::string>& columns, std::size_t own);

/// An empty variable counts as one that is not set.
Environment read_environment();

/// $XDG_DATA_HOME/swr/tuned.db, else ~/.local/share/swr/tuned.db; SWR_DB wins over both.
/// Throws: Error{invalid_argument} when none of the variables is set.
std::filesystem::path default_database(const Environment& environment);

/// $XDG_CACHE_HOME/swr, else ~/.cache/swr; SWR_CACHE_DIR wins over both.
/// Throws: Error{invalid_argument} when none of the variables is set.
std::filesystem::path default_cache_dir(const Environment& environment);

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;        ///< Environment, GPU, database or compiler.
inline constexpr int kExitBadUsage = 2;       ///< Command line or values.
inline constexpr int kExitInterrupted = 130;  ///< As shells report SIGINT.

/// Stands before the arguments of the command that started a process which measures, or compiles
/// many kernels, for it. Not in the help: nobody else has a use for it.
inline constexpr const char* kMeasureWorkerCommand = "measure-worker";
inline constexpr const char* kCompileWorkerCommand = "compile-worker";

/// Where a command runs.
struct Session {
  CommonOptions common;
  Environment environment;
  std::string command_line;  ///< As typed, for the database.
  std::vector<std::string> arguments;
  std::ostream& out;
  std::ostream& err;
  /// Those of --spec.
  std::vector<const Operation*> kernels = {};
};

// Each adds a command: its options, and what it does with them. That returns the exit code, and
// throws Error, which run() turns into a line and an exit code.
void add_tune(CommandLine& line);
void add_kernel(CommandLine& line);
void add_query(CommandLine& line);
void add_explain(CommandLine& line);
void add_calibrate(CommandLine& line);
void add_export(CommandLine& line);
void add_devices(CommandLine& line);
void add_emit(CommandLine& line);
void add_axes(CommandLine& line);
void add_plan(CommandLine& line);
void add_kernels(CommandLine& line);
void add_db(CommandLine& line);
void add_judge(CommandLine& line);
void add_report(CommandLine& line);
void add_watch(CommandLine& line);
void add_doctor(CommandLine& line);
void add_completion(CommandLine& line);

/// Reads the arguments after the program's name. Without a command it is tune; without any argument
/// the help is asked for, whose lines have at most `width` characters (0: as is usual). What comes
/// after kMeasureWorkerCommand and kCompileWorkerCommand is run as that.
/// Throws: Error{invalid_argument} for anything that is no valid command line.
ParsedCommand parse_command(std::span<const std::string> arguments, std::size_t width = 0);

/// The whole program, for completion and the manual page.
CommandNode command_tree();

/// Serves compilations to the process that started this one.
int run_compile_worker(const Session& session);

/// What `body` returns; what it throws is reported in one line on `err`.
int run_reporting(const std::function<int()>& body, const Environment& environment,
                  std::ostream& err);

/// The whole program: parses, runs, reports an error in one line on `err`; returns the exit code.
int run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
        std::ostream& err);

/// A command line as typed, for databases and documents.
std::string command_line(const std::string& program, std::span<const std::string> arguments);

/// The generator's settings: options win over the environment.
GeneratorOptions generator_options(const Session& session);

/// The results to ask for: --l2, and the templates in effect.
Setting setting(const Session& session);

/// The database file: --db wins over the environment.
std::filesystem::path database_path(const Session& session);

}  // namespace swr::cli
