// SPDX-License-Identifier: MIT
#include "generator/file_io.h"

#include <swr/error.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

constexpr mode_t kReadableByAll = 0644;

/// A file that is removed unless it was renamed to its final path.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& beside)
      : target_(beside),
        file_(open(beside.parent_path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)) {
    if (file_.get() < 0) {  // Some file systems have no files without a name.
      name_ = target_.string() + ".tmp-XXXXXX";
      file_ = FileDescriptor(mkostemp(name_.data(), O_CLOEXEC));
    }
    if (file_.get() < 0) {
      fail("created");
    }
  }
  ~TemporaryFile() {
    if (!name_.empty()) {
      unlink(name_.c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  void write(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t written = ::write(file_.get(), data.data(), data.size());
      if (written < 0 && errno != EINTR) {
        fail("written");
      }
      data = data.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
  }

  /// Others may share the cache, so the file is made readable to all.
  void publish() {
    if (fchmod(file_.get(), kReadableByAll) != 0 || fsync(file_.get()) != 0 || !give_name() ||
        rename(name_.c_str(), target_.c_str()) != 0) {
      fail("stored");
    }
    name_.clear();
  }

 private:
  /// Only once all is written, so that a process that is killed before leaves nothing behind.
  bool give_name() {
    if (name_.empty()) {
      const std::string number = std::to_string(file_.get());
      name_ = target_.string() + ".tmp-" + std::to_string(getpid()) + "-" + number;
      unlink(name_.c_str());  // Of a process that had this number before.
      return linkat(AT_FDCWD, ("/proc/self/fd/" + number).c_str(), AT_FDCWD, name_.c_str(),
                    AT_SYMLINK_FOLLOW) == 0;
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& action) const {
    const std::error_code reason(errno, std::generic_category());
    throw Error(ErrorCode::not_writable, "'" + target_.string() + "' cannot be " + action + " (" +
                                             reason.message() +
                                             "); free space or choose another directory");
  }

  std::filesystem::path target_;
  std::string name_;  ///< Empty while it has none, and once it is its target.
  FileDescriptor file_;
};

}  // namespace

std::optional<std::string> read_text(const std::filesystem::path& path, Links links) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    return read_regular_file(path, kMostBytes, links);
  } catch (const Error&) {
    return std::nullopt;  // What cannot be read is as good as absent.
  }
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> data) {
  TemporaryFile file(path);
  file.write(data);
  file.publish();
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

}  // namespace swr
