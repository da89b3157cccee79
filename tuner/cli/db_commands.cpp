// SPDX-License-Identifier: MIT
// The commands that write the database's results in other forms.
#include "core/json.h"
#include "core/recorded_space.h"
#include "tuner/cli/commands.h"
#include "tuner/search/stored_spaces.h"
#include "tuner/t4.h"
#include <swr/error.h>

#include <fstream>
#include <ostream>

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

void require_written(std::ofstream& file, const std::filesystem::path& path) {
  if (!file.flush()) {
    throw Error(ErrorCode::not_writable,
                "cannot write all of " + path.string() + "; is the disk full?");
  }
}

/// One file per space, named after it.
template <typename Write>
void write_spaces(const Session& session, const std::vector<RecordedSpace>& spaces,
                  const std::string& extension, Write&& write) {
  make_directory(*session.options.out);
  for (const RecordedSpace& space : spaces) {
    const auto path =
        *session.options.out / (recorded_space_name(space.problem, space.device) + extension);
    std::ofstream file = open_output(path);
    write(file, space);
    require_written(file, path);
    session.out << "wrote " << space.results.size() << " variants to " << path.string() << "\n";
  }
}

}  // namespace

int run_record(const Session& session) {
  write_spaces(session, load_spaces(database_path(session)), ".json", write_recorded_space);
  return kExitSuccess;
}

int run_export_t4(const Session& session) {
  auto spaces = load_spaces(database_path(session));
  std::erase_if(spaces, [](const RecordedSpace& space) {
    return space.results.front().provenance() == Provenance::predicted;
  });
  if (spaces.empty()) {
    throw Error(
        ErrorCode::nothing_stored,
        "database " + database_path(session).string() +
            " holds predictions only, and the T4 format is for measured times; tune on a GPU");
  }
  write_spaces(session, spaces, ".t4.json", [](std::ostream& out, const RecordedSpace& space) {
    out << json_document(t4_document(space));
  });
  return kExitSuccess;
}

}  // namespace swr::cli
