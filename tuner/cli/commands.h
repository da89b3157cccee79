// SPDX-License-Identifier: MIT
// What each subcommand does. Results go to `out`, progress and notes to `err`.
#pragma once

#include "core/json.h"
#include "core/recorded_space.h"
#include "tuner/cli/environment.h"
#include "tuner/cli/options.h"
#include <swr/store.h>

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace swr::cli {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;        ///< Environment, GPU, database or compiler.
inline constexpr int kExitBadUsage = 2;       ///< Command line or values.
inline constexpr int kExitInterrupted = 130;  ///< As shells report SIGINT.

/// Where a command runs.
struct Session {
  Options options;
  Environment environment;
  std::string command_line;  ///< As typed, for the database.
  std::vector<std::string> arguments;
  std::ostream& out;
  std::ostream& err;
};

// Each returns the exit code. Throws: Error, which run() turns into a line and an exit code.
int run_tune(const Session& session);
int run_kernel(const Session& session);
/// tune --replay.
int run_replay(const Session& session);
int run_query(const Session& session);
int run_explain(const Session& session);
int run_calibrate(const Session& session);
int run_export(const Session& session);
int run_devices(const Session& session);
int run_emit(const Session& session);
int run_axes(const Session& session);
int run_plan(const Session& session);
int run_record(const Session& session);
int run_export_t4(const Session& session);
int run_import(const Session& session);
int run_merge(const Session& session);
int run_export_csv(const Session& session);
int run_judge(const Session& session);
int run_report(const Session& session);
int run_watch(const Session& session);
int run_doctor(const Session& session);
int run_completion(const Session& session);
int run_man_page(const Session& session);
/// Serves measurements to the tuner that started this process.
int run_measure_worker(const Session& session);
int run_compile_worker(const Session& session);

/// Of T4 results, or of a cache of Kernel Tuner, which is of the problem and the GPU of the
/// command. Throws: Error{unreadable}; Error{invalid_argument} where the cache is of another
/// kernel.
RecordedSpace space_of_others(const Session& session, const std::filesystem::path& path,
                              const Json& document);

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
