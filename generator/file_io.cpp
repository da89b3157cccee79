// SPDX-License-Identifier: MIT
#include "generator/file_io.h"

#include <swr/error.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace swr {
namespace {

constexpr mode_t kReadableByAll = 0644;

/// A file that is removed unless it was renamed to its final path.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& beside)
      : target_(beside), name_(beside.string() + ".tmp-XXXXXX"), file_(create(name_)) {
    if (file_.get() < 0) {
      fail("created");
    }
  }
  ~TemporaryFile() {
    if (file_.get() >= 0 && !renamed_) {
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
    if (fchmod(file_.get(), kReadableByAll) != 0 || fsync(file_.get()) != 0 ||
        rename(name_.c_str(), target_.c_str()) != 0) {
      fail("stored");
    }
    renamed_ = true;
  }

 private:
  static FileDescriptor create(std::string& name) {
    return FileDescriptor(mkostemp(name.data(), O_CLOEXEC));
  }

  [[noreturn]] void fail(const std::string& action) const {
    const std::error_code reason(errno, std::generic_category());
    throw Error(ErrorCode::not_writable, "'" + target_.string() + "' cannot be " + action + " (" +
                                             reason.message() +
                                             "); free space or choose another directory");
  }

  std::filesystem::path target_;
  std::string name_;
  FileDescriptor file_;
  bool renamed_ = false;
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

FileDescriptor lock_file(const std::filesystem::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  while (file.get() >= 0 && flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return file;
}

}  // namespace swr
