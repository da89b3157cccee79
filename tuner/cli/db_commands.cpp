// SPDX-License-Identifier: MIT
// The commands that write the database's results in other forms, or read such.
#include "core/recorded_space.h"
#include "db/merge.h"
#include "report/other_formats.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/foreign_results.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include "tuner/search/replay_evaluator.h"
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

struct WriteArguments {
  std::filesystem::path out;
  /// Recordings that are written too, where the database has none of their problem.
  std::optional<std::filesystem::path> keep;
};

struct ReadArguments {
  std::vector<std::filesystem::path> from;
};

struct ImportArguments {
  std::vector<std::filesystem::path> from;
  CacheSubject subject;
};

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
void write_spaces(const Session& session, const std::filesystem::path& out,
                  const std::vector<RecordedSpace>& spaces, const std::string& extension,
                  Write&& write) {
  make_directory(out);
  for (const RecordedSpace& space : spaces) {
    const auto path =
        out / (recorded_space_name(space.problem, space.device, space.origin) + extension);
    OutputFile file(session, path);
    write(file.text(), space);
    file.finish();
    session.out << "wrote " << space.results.size() << " variants to " << path.string() << "\n";
  }
}

/// All spaces in the file that --out names.
void write_one_file(const Session& session, const std::filesystem::path& path,
                    const std::vector<RecordedSpace>& spaces) {
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

int run_record(const Session& session, const WriteArguments& asked) {
  std::vector<RecordedSpace> spaces = load_spaces(database_path(session));
  if (asked.keep) {
    add_others(spaces, read_recorded_spaces(*asked.keep));
  }
  if (asked.out.extension() == kRecordedSpacesExtension) {
    write_one_file(session, asked.out, spaces);
  } else {
    write_spaces(session, asked.out, spaces, std::string(kRecordedSpacesExtension),
                 [](std::ostream& out, const RecordedSpace& space) {
                   write_recorded_spaces(out, {&space, 1});
                 });
  }
  return kExitSuccess;
}

int run_export_t4(const Session& session, const WriteArguments& asked) {
  write_spaces(session, asked.out, measured_spaces(session), ".t4.json",
               [](std::ostream& out, const RecordedSpace& space) {
                 out << json_document(t4_document(space));
               });
  return kExitSuccess;
}

int run_export_csv(const Session& session, const WriteArguments& asked) {
  write_spaces(session, asked.out, measured_spaces(session), ".csv", write_cutlass_csv);
  return kExitSuccess;
}

// --out is the database of the session.
int run_merge(const Session& session, const ReadArguments& asked) {
  const std::filesystem::path database = database_path(session);
  const MergeSummary added = merge_databases(database, asked.from);
  session.out << "added " << added.results << " results and " << added.decisions << " decisions of "
              << added.runs << " new runs to " << database.string() << "\n";
  if (added.runs_ahead > 0) {
    session.err
        << "swr-tune: note: " << added.runs_ahead
        << " of its runs began later than it is by this machine's clock; the newest counts, "
           "so until then no new run outdoes them\n";
  }
  return kExitSuccess;
}

int run_import(const Session& session, const ImportArguments& asked) {
  std::vector<FinishedRun> runs;
  for (const std::filesystem::path& path : asked.from) {
    runs.push_back(finished_run(
        session, space_of_others(session, asked.subject, path, read_results_document(path))));
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

/// A command that writes files; `out` says what --out names.
void add_writer(CommandLine& line, const std::string& name, const std::string& meaning,
                const std::string& out, const std::string& example,
                int (*run)(const Session&, const WriteArguments&)) {
  auto [options, asked] =
      line.add<WriteArguments>({.name = "db " + name,
                                .meaning = meaning,
                                .footer = "Example: swr-tune db " + name + " --out " + example},
                               run);
  options.add("--out PATH", asked.out, out, {.group = "Files", .is_required = true});
  add_spec_option(options);
  add_database_option(options);
  if (run == run_record) {
    options.add("--keep FILE", asked.keep,
                "Recordings that are written too, but for spaces that the database has",
                {.group = "Files", .role = FileRole::input});
  }
}

}  // namespace

void add_db(CommandLine& line) {
  line.add_family({.name = "db",
                   .meaning = "Write the database's results in other forms, and read them",
                   .group = "Use it elsewhere"});
  const std::string directory = "Directory; created when missing";
  add_writer(
      line, "record", "Write every tuned space as text, for judge and for tests",
      "A file that ends in .spaces takes all spaces; else a directory takes a file for each, and "
      "is created when missing",
      "tuned.spaces", run_record);
  add_writer(line, "export-t4",
             "Write every measured space in the T4 auto-tuning results format 1.0", directory,
             "results", run_export_t4);
  auto [import, imported] = line.add<ImportArguments>(
      {.name = "db import",
       .alias = "import-t4",
       .meaning = "Store results of files in the T4 format 1.0 and of caches of Kernel Tuner",
       .footer =
           "Examples:\n"
           "  swr-tune db import --from results/*.t4.json --db tuned.db\n"
           "  swr-tune db import --from cache.json --spec blur.json --gpu a100 --db tuned.db"},
      run_import);
  import.add("--from FILE...", imported.from,
             "Files of T4, such as export-t4 writes, each of which says under \"swr\" what it is "
             "of, and caches of the kernel of --spec on --gpu",
             {.group = "Files", .is_required = true, .role = FileRole::input});
  add_cache_subject_options(import, imported.subject);
  add_database_option(import);
  auto [merge, merged] = line.add<ReadArguments>(
      {.name = "db merge",
       .meaning = "Join the databases of several workers into one",
       .footer = "Merging again adds nothing. Results of one device that are not comparable (other "
                 "templates,\n"
                 "NVRTC, driver, L2 state or options) are refused, and --out stays as it was.\n\n"
                 "Example: swr-tune db merge --out tuned.db --from results/*.db"},
      run_merge);
  merge.add("--out FILE", merge.common().database, "Database to add to; created when missing",
            {.group = "Files", .is_required = true});
  merge.add("--from FILE...", merged.from, "Databases to read",
            {.group = "Files", .is_required = true, .role = FileRole::input});
  add_writer(line, "export-csv",
             "Write every measured space as CSV with the columns of the CUTLASS profiler",
             directory, "results", run_export_csv);
}

}  // namespace swr::cli
