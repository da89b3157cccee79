// SPDX-License-Identifier: MIT
#include "core/regular_file.h"

#include <swr/error.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace swr {
namespace {

[[noreturn]] void reject(const std::filesystem::path& path, const std::string& cause) {
  throw Error(ErrorCode::unreadable, path.string() + " " + cause);
}

/// A descriptor that is closed; -1 when the file cannot be opened. Does not wait for a pipe's
/// writer.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, Links links)
      : descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC |
                                           (links == Links::refused ? O_NOFOLLOW : 0))) {}
  ~OpenFile() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return descriptor_; }
  bool is_regular() const {
    struct stat status {};
    return fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  }

 private:
  int descriptor_;
};

}  // namespace

std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes,
                              Links links) {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
  const OpenFile file(path, links);
  if (file.get() < 0) {
    throw Error(ErrorCode::not_found, "cannot read " + path.string() + " (" +
                                          std::generic_category().message(errno) + ")");
  }
  if (!file.is_regular()) {
    reject(path, "is no regular file");
  }
  std::string text;
  for (std::size_t used = 0;;) {
    text.resize(used + kChunkBytes);
    const ssize_t count = read(file.get(), text.data() + used, kChunkBytes);
    if (count < 0 && errno != EINTR) {
      reject(path, "cannot be read (" + std::generic_category().message(errno) + ")");
    }
    used += count < 0 ? 0 : static_cast<std::size_t>(count);
    if (used > most_bytes) {
      reject(path, "is longer than " + std::to_string(most_bytes) + " bytes");
    }
    if (count == 0) {
      text.resize(used);
      return text;
    }
  }
}

}  // namespace swr
