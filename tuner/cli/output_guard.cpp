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
    return database_path(session);
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

std::vector<Kept> kept_files(const Session& session) {
  std::vector<Kept> kept;
  add_database(kept, database_of(session), "the database of this command");
  std::error_code failure;
  for (const fs::path& input : session.common.inputs) {
    if (!fs::exists(input, failure)) {
      continue;  // Such as a GPU's name.
    }
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
  const CommonOptions& options = session.common;
  if (options.templates || session.environment.templates) {
    kept.push_back(
        {options.templates ? *options.templates : fs::path(*session.environment.templates),
         "among the templates of this command"});
  }
  for (const fs::path& queue : options.queues) {
    kept.push_back({queue / "queue", "part of the queue of this command"});
  }
  return kept;
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
  if (const fs::path database = database_of(session); !database.empty()) {
    require_database_name(database);
  }
  std::vector<fs::path> outputs = session.common.outputs;
  std::erase_if(outputs, is_special);
  for (const fs::path& output : outputs) {
    require_replaceable(session, output);
  }
  require_distinct(outputs);
  for (const fs::path& folder : session.common.replaced_folders) {
    require_replaceable_directory(session, folder);
  }
}

}  // namespace swr::cli
