// SPDX-License-Identifier: MIT
#include "export/staging_directory.h"

#include <swr/error.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".swr-staging";
constexpr const char* kEnding = ".new-";

bool is_free_lock_of_this_user(const FileDescriptor& lock) {
  struct stat status {};
  return lock.get() >= 0 && fstat(lock.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == geteuid() && status.st_nlink == 1 &&
         flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Of a folder that is open: where others may rename what is around it, its path might lead to
/// another one by now.
void remove_contents(const FileDescriptor& folder) {
  std::error_code failure;
  fs::directory_iterator entry("/proc/self/fd/" + std::to_string(folder.get()), failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
}

/// Only a folder with a lock's file that nobody holds; whatever else has such a name is not swr's.
void remove_if_left(const fs::path& path) {
  const FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) {
    return;
  }
  const FileDescriptor lock(
      openat(folder.get(), kLock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (is_free_lock_of_this_user(lock)) {
    remove_contents(folder);
    rmdir(path.c_str());
  }
}

void remove_left(const fs::path& target) {
  const std::string begin = target.filename().string() + kEnding;
  std::error_code failure;
  fs::directory_iterator entry(target.parent_path(), failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (entry->path().filename().string().starts_with(begin)) {
      remove_if_left(entry->path());
    }
  }
}

}  // namespace

void fail_to_write(const fs::path& path, const std::string& cause) {
  throw Error(ErrorCode::not_writable, path.string() + " cannot be written (" + cause +
                                           "); choose another directory or change its permissions");
}

void require(const std::error_code& failure, const fs::path& path) {
  if (failure) {
    fail_to_write(path, failure.message());
  }
}

StagingDirectory::StagingDirectory(const fs::path& target) {
  std::error_code failure;
  fs::create_directories(target.parent_path(), failure);
  require(failure, target);
  remove_left(target);
  // What is there already may be another user's, with links to files of this one.
  constexpr int kMostTried = 100;
  const std::string name = target.string() + kEnding + std::to_string(getpid());
  for (int tried = 0;; ++tried) {
    path_ = name + (tried == 0 ? "" : "-" + std::to_string(tried));
    if (fs::create_directory(path_, failure)) {
      if (lock()) {
        return;
      }
      failure.assign(errno, std::generic_category());
      rmdir(path_.c_str());
    }
    if (tried == kMostTried || (failure && failure != std::errc::file_exists)) {
      fail_to_write(target, failure ? failure.message() : path_.string() + " is there");
    }
  }
}

StagingDirectory::~StagingDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void StagingDirectory::write(const std::string& name, std::span<const char> bytes) const {
  std::error_code failure;
  fs::create_directories((path_ / name).parent_path(), failure);
  require(failure, path_ / name);
  std::ofstream file(path_ / name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    fail_to_write(path_ / name, "the write failed");
  }
}

bool StagingDirectory::lock() {
  constexpr mode_t kOwnerAlone = 0600;
  FileDescriptor made(open((path_ / kLock).c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerAlone));
  if (made.get() < 0) {
    return false;
  }
  // Where a file system has no locks none is kept, and nothing is removed later.
  const bool is_held = flock(made.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat status {};
  if (is_held || (fstat(made.get(), &status) == 0 && status.st_nlink == 0)) {
    errno = EEXIST;  // Another has taken it for one that was left.
    return false;
  }
  lock_ = std::move(made);
  return true;
}

void StagingDirectory::unlock() {
  const fs::path lock = path_ / kLock;
  if (unlink(lock.c_str()) != 0) {
    fail_to_write(lock, std::generic_category().message(errno));
  }
}

}  // namespace swr
