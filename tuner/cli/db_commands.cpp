// SPDX-License-Identifier: MIT
// The commands that write the database's results in other forms.
#include "core/recorded_space.h"
#include "tuner/cli/commands.h"
#include "tuner/search/stored_spaces.h"
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

}  // namespace

int run_record(const Session& session) {
  const auto spaces = load_spaces(database_path(session));
  make_directory(*session.options.out);
  for (const RecordedSpace& space : spaces) {
    const auto path =
        *session.options.out / (recorded_space_name(space.problem, space.device) + ".json");
    std::ofstream file = open_output(path);
    write_recorded_space(file, space);
    require_written(file, path);
    session.out << "wrote " << space.results.size() << " variants to " << path.string() << "\n";
  }
  return kExitSuccess;
}

}  // namespace swr::cli
