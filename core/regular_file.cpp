// SPDX-License-Identifier: MIT
#include "core/regular_file.h"

#include <swr/error.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

[[noreturn]] void reject(const std::filesystem::path& path, const std::string& cause) {
  throw Error(ErrorCode::unreadable, path.string() + " " + cause);
}

constexpr std::size_t kChunkBytes = std::size_t{1} << 16;

}  // namespace

RegularFile::RegularFile(std::filesystem::path path, Links links)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                    (links == Links::refused ? O_NOFOLLOW : 0))) {
  if (file_.get() < 0) {
    throw Error(ErrorCode::not_found, "cannot read " + path_.string() + " (" +
                                          std::generic_category().message(errno) + ")");
  }
  if (fstat(file_.get(), &status_) != 0 || !S_ISREG(status_.st_mode)) {
    reject(path_, "is no regular file");
  }
}

std::string RegularFile::read(std::size_t offset, std::size_t most_bytes) const {
  std::string text;
  for (std::size_t used = 0; used < most_bytes;) {
    const std::size_t wanted = std::min(kChunkBytes, most_bytes - used);
    text.resize(used + wanted);
    const ssize_t count =
        pread(file_.get(), text.data() + used, wanted, static_cast<off_t>(offset + used));
    if (count < 0 && errno != EINTR) {
      reject(path_, "cannot be read (" + std::generic_category().message(errno) + ")");
    }
    used += count < 0 ? 0 : static_cast<std::size_t>(count);
    if (count == 0) {
      text.resize(used);
      break;
    }
  }
  return text;
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes,
                              Links links) {
  std::string text = RegularFile(path, links).read(0, most_bytes + 1);
  if (text.size() > most_bytes) {
    reject(path, "is longer than " + std::to_string(most_bytes) + " bytes");
  }
  return text;
}

}  // namespace swr
