// SPDX-License-Identifier: MIT
#include "tuner/cli/output_guard.h"

#include "core/files.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kCompanions{"-wal", "-shm", "-journal"};

/// A file that must stay as it is, and what it is to the command.
struct Kept {
  fs::path path;
  std::string role;
};

[[noreturn]] void refuse(const fs::path& path, const std::string& cause) {
  throw Error(ErrorCode::invalid_argument, "will not write to " + path.string() + ": it is " +
                                               cause + "; choose another file for the output");
}

bool is_sqlite_database(const fs::path& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) {
    return false;  // Opening a pipe would tell its writer that somebody reads.
  }
  try {
    return RegularFile(path).read(0, kMagic.size()) == kMagic;
  } catch (const Error&) {
    return false;
  }
}

/// The name less a companion's ending; empty for other names.
fs::path database_beside(const fs::path& path) {
  const std::string text = path.string();
  for (const std::string_view ending : kCompanions) {
    if (text.size() > ending.size() && text.ends_with(ending)) {
      return text.substr(0, text.size() - ending.size());
    }
  }
  return {};
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  const bool is_same = fs::equivalent(a, b, failure);
  return (is_same && !failure) || link_target(a) == link_target(b);
}

bool is_within(const fs::path& path, const fs::path& directory) {
  const fs::path inner = link_target(path);
  const fs::path outer = link_target(directory);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Empty where a command has no default database and needs none.
fs::path database_of(const Session& session) {
  try {
    return session.options.command == Command::merge ? *session.options.out
                                                     : database_path(session);
  } catch (const Error&) {
    return {};
  }
}

void add_database(std::vector<Kept>& kept, const fs::path& path, const std::string& role) {
  if (path.empty()) {
    return;
  }
  kept.push_back({path, role});
  for (const char* ending : kCompanions) {
    kept.push_back(
        {link_target(path).string() + ending, "a file that SQLite keeps beside " + role});
  }
}

/// The files that the command line names for reading.
std::vector<fs::path> inputs_of(const Options& options) {
  std::vector<fs::path> inputs{options.gpu, options.export_gpu};
  for (const auto& one :
       {options.work, options.keep, options.plan.shapes, options.plan.model, options.against}) {
    inputs.push_back(one.value_or(fs::path()));
  }
  for (const auto* files : {&options.imports, &options.tune_replay, &options.replay}) {
    inputs.insert(inputs.end(), files->begin(), files->end());
  }
  // "auto" names a GPU even where an output has that name.
  std::erase_if(inputs, [](const fs::path& path) {
    std::error_code failure;
    return path.empty() || !fs::exists(path, failure);
  });
  return inputs;
}

std::vector<Kept> kept_files(const Session& session) {
  std::vector<Kept> kept;
  add_database(kept, database_of(session), "the database of this command");
  for (const fs::path& input : inputs_of(session.options)) {
    if (is_sqlite_database(input)) {
      add_database(kept, input, "a database that this command reads");
    } else {
      kept.push_back({input, "an input of this command"});
    }
  }
  return kept;
}

std::vector<Kept> kept_directories(const Session& session) {
  std::vector<Kept> kept;
  const Options& options = session.options;
  if (options.templates) {
    kept.push_back({*options.templates, "among the templates of this command"});
  } else if (session.environment.templates) {
    kept.push_back({*session.environment.templates, "among the templates of this command"});
  }
  if (options.queue) {
    kept.push_back({*options.queue / "queue", "part of the queue of this command"});
  }
  return kept;
}

/// The files that a command line names for writing text.
std::vector<fs::path> outputs_of(const Options& options) {
  std::vector<fs::path> outputs;
  for (const auto& one : {options.csv, options.events, options.sweep}) {
    outputs.push_back(one.value_or(fs::path()));
  }
  switch (options.command) {
    case Command::emit:
    case Command::plan:
    case Command::report:
    case Command::calibrate:
      outputs.push_back(options.out.value_or(fs::path()));
      break;
    default:  // Directories, whose files are checked when their names are known.
      break;
  }
  std::erase_if(outputs, [](const fs::path& path) { return path.empty() || is_special(path); });
  return outputs;
}

void require_distinct(const std::vector<fs::path>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (is_same_file(outputs[i], outputs[j])) {
        refuse(outputs[i], "named for two outputs");
      }
    }
  }
}

/// SQLite would take such a database for its own file and delete it.
void require_database_name(const fs::path& path) {
  const fs::path other = database_beside(link_target(path));
  if (is_sqlite_database(other)) {
    throw Error(ErrorCode::invalid_argument,
                path.string() + " cannot be a database: SQLite keeps a file of this name beside " +
                    other.string() + "; choose another name");
  }
}

}  // namespace

fs::path link_target(const fs::path& path) {
  constexpr int kMostLinks = 40;  // As the kernel follows.
  std::error_code failure;
  fs::path target = fs::absolute(path, failure);
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, failure); ++i) {
    const fs::path next = fs::read_symlink(target, failure);
    if (failure) {
      break;
    }
    target = target.parent_path() / next;
  }
  fs::path plain = fs::weakly_canonical(target, failure);
  plain = failure ? target.lexically_normal() : plain;
  return plain.has_filename() ? plain : plain.parent_path();
}

bool is_special(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void require_replaceable(const Session& session, const fs::path& path) {
  if (is_special(path)) {
    return;
  }
  for (const Kept& kept : kept_files(session)) {
    if (is_same_file(path, kept.path)) {
      refuse(path, kept.role);
    }
  }
  for (const Kept& kept : kept_directories(session)) {
    if (is_within(path, kept.path)) {
      refuse(path, kept.role);
    }
  }
  if (is_sqlite_database(path)) {
    refuse(path, "an SQLite database");
  }
  if (const fs::path other = database_beside(link_target(path)); is_sqlite_database(other)) {
    refuse(path, "a file that SQLite keeps beside the database " + other.string());
  }
}

void require_replaceable_directory(const Session& session, const fs::path& directory) {
  for (const Kept& kept : kept_files(session)) {
    if (is_within(kept.path, directory)) {
      throw Error(ErrorCode::invalid_argument, "will not replace " + directory.string() +
                                                   ": it holds " + kept.path.string() + ", " +
                                                   kept.role + "; name a new directory");
    }
  }
}

void check_outputs(const Session& session) {
  const Options& options = session.options;
  if (options.command == Command::help || options.command == Command::measure_worker ||
      options.command == Command::compile_worker) {
    return;
  }
  if (const fs::path database = database_of(session); !database.empty()) {
    require_database_name(database);
  }
  const std::vector<fs::path> outputs = outputs_of(options);
  for (const fs::path& output : outputs) {
    require_replaceable(session, output);
  }
  require_distinct(outputs);
  if (options.command == Command::export_results) {
    require_replaceable_directory(session, *options.out);
  }
}

}  // namespace swr::cli
