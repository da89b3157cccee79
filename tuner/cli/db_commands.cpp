// SPDX-License-Identifier: MIT
// The commands that write the database's results in other forms, or read such.
#include "core/operation.h"
#include "core/recorded_space.h"
#include "db/merge.h"
#include "report/cutlass_csv.h"
#include "report/kernel_tuner_cache.h"
#include "report/t4.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/output_file.h"
#include "tuner/search/stored_spaces.h"
#include <swr/error.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

void make_directory(const std::filesystem::path& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    throw Error(ErrorCode::not_writable, "cannot create " + directory.string() + ": " +
                                             failure.message() + "; choose another directory");
  }
}

/// One file per space, named after it.
template <typename Write>
void write_spaces(const Session& session, const std::vector<RecordedSpace>& spaces,
                  const std::string& extension, Write&& write) {
  make_directory(*session.options.out);
  for (const RecordedSpace& space : spaces) {
    const auto path = *session.options.out /
                      (recorded_space_name(space.problem, space.device, space.origin) + extension);
    OutputFile file(session, path);
    write(file.text(), space);
    file.finish();
    session.out << "wrote " << space.results.size() << " variants to " << path.string() << "\n";
  }
}

/// All spaces in the file that --out names.
void write_one_file(const Session& session, const std::vector<RecordedSpace>& spaces) {
  const std::filesystem::path& path = *session.options.out;
  OutputFile file(session, path);
  write_recorded_spaces(file.text(), spaces);
  file.finish();
  session.out << "wrote " << spaces.size() << (spaces.size() == 1 ? " space to " : " spaces to ")
              << path.string() << "\n";
}

/// The spaces that were measured: the formats of others do not tell predictions from them.
std::vector<RecordedSpace> measured_spaces(const Session& session) {
  auto spaces = load_spaces(database_path(session));
  std::erase_if(spaces, [](const RecordedSpace& space) {
    return space.results.front().provenance() == Provenance::predicted;
  });
  if (spaces.empty()) {
    throw Error(ErrorCode::nothing_stored,
                "database " + database_path(session).string() +
                    " holds predictions only, and this format is for measured times; tune on a "
                    "GPU");
  }
  return spaces;
}

/// Adds those whose problem, device and setting are in none of the spaces.
void add_others(std::vector<RecordedSpace>& spaces, std::vector<RecordedSpace> others) {
  const auto name = [](const RecordedSpace& space) {
    return recorded_space_name(space.problem, space.device, space.origin);
  };
  std::set<std::string> known;
  std::ranges::transform(spaces, std::inserter(known, known.end()), name);
  for (RecordedSpace& other : others) {
    if (known.insert(name(other)).second) {
      spaces.push_back(std::move(other));
    }
  }
}

/// What the spec and the sizes of the command do not allow cannot have been measured with them.
void require_allowed(const RecordedSpace& space) {
  for (const VariantResult& result : space.results) {
    const auto broken = result.state == ResultState::ok
                            ? space.problem.operation().broken_constraint(
                                  space.problem, result.variant, space.device)
                            : std::nullopt;
    if (broken) {
      throw Error(ErrorCode::invalid_argument,
                  "it has a time of " + to_key(result.variant) +
                      ", which the spec does not allow (" + std::string(broken->constraint.name) +
                      ": " + broken->reason + "); name the spec and the sizes of its kernel");
    }
  }
}

RecordedSpace space_of_cache(const Session& session, const Json& document) {
  const bool has_spec = !session.options.kernel.specs.empty();
  const std::vector<Problem> wanted =
      has_spec ? problems(session.options.problem) : std::vector<Problem>();
  if (wanted.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "it is a cache of Kernel Tuner, which is of one problem of one kernel: name its "
                "--spec, the sizes with --arg, and the --gpu");
  }
  RecordedSpace space =
      read_t4(t4_of_cache(document, wanted.front(), choose_gpu(session.options.gpu).device));
  require_allowed(space);
  return space;
}

/// A run of its own, which no other run continues.
FinishedRun finished_run(const Session& session, RecordedSpace space) {
  return {.info = {.command = session.command_line,
                   .swr_version = space.origin.swr_version,
                   .templates_digest = space.origin.templates_digest,
                   .overlay_digest = space.origin.overlay_digest,
                   .nvrtc_version = space.origin.nvrtc_version,
                   .driver_version = space.origin.driver_version,
                   .l2_state = space.origin.l2_state},
          .problem = space.problem,
          .device = space.device,
          .results = std::move(space.results)};
}

}  // namespace

RecordedSpace space_of_others(const Session& session, const std::filesystem::path& path,
                              const Json& document) {
  try {
    return is_kernel_tuner_cache(document) ? space_of_cache(session, document) : read_t4(document);
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
}

int run_record(const Session& session) {
  std::vector<RecordedSpace> spaces = load_spaces(database_path(session));
  if (session.options.keep) {
    add_others(spaces, read_recorded_spaces(*session.options.keep));
  }
  if (session.options.out->extension() == kRecordedSpacesExtension) {
    write_one_file(session, spaces);
  } else {
    write_spaces(session, spaces, std::string(kRecordedSpacesExtension),
                 [](std::ostream& out, const RecordedSpace& space) {
                   write_recorded_spaces(out, {&space, 1});
                 });
  }
  return kExitSuccess;
}

int run_export_t4(const Session& session) {
  write_spaces(session, measured_spaces(session), ".t4.json",
               [](std::ostream& out, const RecordedSpace& space) {
                 out << json_document(t4_document(space));
               });
  return kExitSuccess;
}

int run_export_csv(const Session& session) {
  write_spaces(session, measured_spaces(session), ".csv", write_cutlass_csv);
  return kExitSuccess;
}

int run_merge(const Session& session) {
  const std::vector<std::filesystem::path> sources(session.options.imports.begin(),
                                                   session.options.imports.end());
  const MergeSummary added = merge_databases(*session.options.out, sources);
  session.out << "added " << added.results << " results and " << added.decisions << " decisions of "
              << added.runs << " new runs to " << session.options.out->string() << "\n";
  if (added.runs_ahead > 0) {
    session.err
        << "swr-tune: note: " << added.runs_ahead
        << " of its runs began later than it is by this machine's clock; the newest counts, "
           "so until then no new run outdoes them\n";
  }
  return kExitSuccess;
}

int run_import(const Session& session) {
  std::vector<FinishedRun> runs;
  for (const std::string& path : session.options.imports) {
    runs.push_back(
        finished_run(session, space_of_others(session, path, read_results_document(path))));
  }
  std::error_code ignored_until_open;
  std::filesystem::create_directories(database_path(session).parent_path(), ignored_until_open);
  Store store(database_path(session), Store::Mode::read_write);
  store.record_finished(runs);
  for (const FinishedRun& run : runs) {
    session.out << "stored " << run.results.size() << " variants of " << to_string(run.problem)
                << " on " << run.device.name << "\n";
  }
  return kExitSuccess;
}

}  // namespace swr::cli
