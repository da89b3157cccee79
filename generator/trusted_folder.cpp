// SPDX-License-Identifier: MIT
#include "generator/trusted_folder.h"

#include <swr/error.h>

#include <sys/stat.h>
#include <unistd.h>

namespace swr {

bool is_trusted(const std::filesystem::path& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    return true;
  }
  const uid_t user = geteuid();
  const bool of_this_user = status.st_uid == user || status.st_uid == 0 || user == 0;
  return of_this_user && (status.st_mode & S_IWOTH) == 0;
}

void require_trusted(const std::filesystem::path& folder) {
  if (!is_trusted(folder)) {
    throw Error(ErrorCode::unreadable,
                "the cubin cache '" + folder.string() +
                    "' can be changed by other users, whose code would then be launched; make it "
                    "yours alone (chown, chmod o-w), or choose another directory with --cache-dir");
  }
}

}  // namespace swr
