// SPDX-License-Identifier: MIT
#include "generator/file_io.h"

#include <swr/error.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
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

template <typename Container>
std::optional<Container> read_all(const std::filesystem::path& path) {
  std::error_code error;
  // First, and an error for all but regular files: to open a pipe is to wait for its writer.
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) {
    return std::nullopt;
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  Container content(static_cast<std::size_t>(bytes), {});
  stream.read(reinterpret_cast<char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(stream.gcount()));
  return stream.bad() ? std::nullopt : std::optional(std::move(content));
}

}  // namespace

std::optional<std::vector<std::byte>> read_bytes(const std::filesystem::path& path) {
  return read_all<std::vector<std::byte>>(path);
}

std::optional<std::string> read_text(const std::filesystem::path& path) {
  return read_all<std::string>(path);
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> data) {
  TemporaryFile file(path);
  file.write(data);
  file.publish();
}

FileDescriptor lock_file(const std::filesystem::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  while (file.get() >= 0 && flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return file;
}

}  // namespace swr
