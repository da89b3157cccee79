// SPDX-License-Identifier: MIT
#include "core/files.h"

#include <swr/error.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <thread>

namespace swr {
namespace {

[[noreturn]] void reject_file(const std::filesystem::path& path, const std::string& cause) {
  throw Error(ErrorCode::unreadable, path.string() + " " + cause);
}

std::string system_error_text() { return std::generic_category().message(errno); }

}  // namespace

RegularFile::RegularFile(std::filesystem::path path, Links links)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                    (links == Links::refused ? O_NOFOLLOW : 0))) {
  if (file_.get() < 0) {
    throw Error(ErrorCode::not_found,
                "cannot read " + path_.string() + " (" + system_error_text() + ")");
  }
  if (fstat(file_.get(), &status_) != 0 || !S_ISREG(status_.st_mode)) {
    reject_file(path_, "is no regular file");
  }
}

std::string RegularFile::read(std::size_t offset, std::size_t most_bytes) const {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
  std::string text;
  for (std::size_t used = 0; used < most_bytes;) {
    const std::size_t wanted = std::min(kChunkBytes, most_bytes - used);
    text.resize(used + wanted);
    const ssize_t count =
        pread(file_.get(), text.data() + used, wanted, static_cast<off_t>(offset + used));
    if (count < 0 && errno != EINTR) {
      reject_file(path_, "cannot be read (" + system_error_text() + ")");
    }
    used += count < 0 ? 0 : static_cast<std::size_t>(count);
    if (count == 0) {
      text.resize(used);
      break;
    }
  }
  return text;
}

std::string RegularFile::read_whole(std::size_t most_bytes) const {
  std::string text = read(0, most_bytes + 1);
  if (text.size() > most_bytes) {
    reject_file(path_, "is longer than " + std::to_string(most_bytes) + " bytes");
  }
  return text;
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes) {
  return RegularFile(path).read_whole(most_bytes);
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return true;
}

AtomicFile::AtomicFile(std::filesystem::path target, mode_t mode)
    : target_(std::move(target)),
      file_(open((target_.has_parent_path() ? target_.parent_path() : ".").c_str(),
                 O_TMPFILE | O_WRONLY | O_CLOEXEC, mode)) {
  // Some file systems have no files without a name.
  for (int attempt = 0; file_.get() < 0 && (attempt == 0 || errno == EEXIST); ++attempt) {
    name_ = target_.string() + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    file_ = FileDescriptor(open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (file_.get() < 0) {
    name_.clear();
  }
}

AtomicFile::~AtomicFile() {
  if (!name_.empty()) {
    unlink(name_.c_str());
  }
}

bool AtomicFile::publish(std::optional<mode_t> mode) {
  if ((mode && fchmod(file_.get(), *mode) != 0) || fsync(file_.get()) != 0 || !give_name() ||
      rename(name_.c_str(), target_.c_str()) != 0) {
    return false;
  }
  name_.clear();
  return true;
}

/// Only once all is written.
bool AtomicFile::give_name() {
  if (!name_.empty()) {
    return true;
  }
  const std::string number = std::to_string(file_.get());
  const std::string name = target_.string() + ".tmp-" + std::to_string(getpid()) + "-" + number;
  unlink(name.c_str());  // Of a process that had this number before.
  const bool is_named = linkat(AT_FDCWD, ("/proc/self/fd/" + number).c_str(), AT_FDCWD,
                               name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  name_ = is_named ? name : "";
  return is_named;
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  constexpr mode_t kOfOwner = 0600;
  constexpr mode_t kReadableByAll = 0644;
  const auto require = [&](bool holds, const char* action) {
    if (!holds) {
      throw Error(ErrorCode::not_writable, "'" + path.string() + "' cannot be " + action + " (" +
                                               system_error_text() +
                                               "); free space or choose another directory");
    }
  };
  AtomicFile file(path, kOfOwner);
  require(file.get() >= 0, "created");
  require(write_all(file.get(), text), "written");
  require(file.publish(kReadableByAll), "stored");
}

FileDescriptor lock_file(const std::filesystem::path& path, std::chrono::milliseconds longest) {
  constexpr std::chrono::milliseconds kPause{20};
  const auto deadline = std::chrono::steady_clock::now() + longest;
  FileDescriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  while (file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
  }
  return file;
}

bool is_trusted(const struct stat& status, Sharing sharing) {
  const uid_t user = geteuid();
  const bool of_this_user = status.st_uid == user || status.st_uid == 0 || user == 0;
  const mode_t strangers = sharing == Sharing::group ? S_IWOTH : S_IWGRP | S_IWOTH;
  return of_this_user && (status.st_mode & strangers) == 0;
}

}  // namespace swr
