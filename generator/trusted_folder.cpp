// SPDX-License-Identifier: MIT
#include "generator/trusted_folder.h"

#include <swr/error.h>

#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

bool is_open_to_group_alone(const std::filesystem::path& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP;
}

}  // namespace

bool is_trusted(const std::filesystem::path& folder, Sharing sharing) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    return true;
  }
  const uid_t user = geteuid();
  const bool of_this_user = status.st_uid == user || status.st_uid == 0 || user == 0;
  const mode_t strangers = sharing == Sharing::group ? S_IWOTH : S_IWGRP | S_IWOTH;
  return of_this_user && (status.st_mode & strangers) == 0;
}

void require_trusted(const std::filesystem::path& folder, Sharing sharing) {
  if (!is_trusted(folder, sharing)) {
    throw Error(
        ErrorCode::unreadable,
        "the cubin cache '" + folder.string() +
            "' can be changed by other users, whose code would then be launched; make it "
            "yours alone (chown, chmod -R go-w), " +
            (is_open_to_group_alone(folder) ? "trust its group with --shared-cache, " : "") +
            "or choose another directory with --cache-dir");
  }
}

void require_no_link(const std::filesystem::path& folder) {
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(folder))) {
    throw Error(ErrorCode::unreadable,
                "'" + folder.string() +
                    "' of the cubin cache is a link, and swr follows none there; remove it, or "
                    "make the whole cache's directory a link");
  }
}

}  // namespace swr
