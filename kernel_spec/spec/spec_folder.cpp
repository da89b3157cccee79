// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/spec_folder.h"

#include "core/regular_file.h"
#include <swr/error.h>

#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace swr::kernel_spec {

SpecFolder::SpecFolder(const std::filesystem::path& folder)
    : folder_(folder.empty() ? "." : folder),
      descriptor_(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_.get() < 0) {
    throw Error(ErrorCode::not_found, "there is no folder " + folder_.string());
  }
}

/// The system resolves the path beneath the folder, links and all; no check of a path's text can.
int SpecFolder::open_beneath(const std::string& path) const {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, descriptor_.get(), path.c_str(), &how, sizeof how));
}

bool SpecFolder::has(const std::string& path) const {
  return FileDescriptor(open_beneath(path)).get() >= 0;
}

std::string SpecFolder::read(const std::string& path, std::size_t most_bytes) const {
  const FileDescriptor file(open_beneath(path));
  if (file.get() < 0 && errno == EXDEV) {
    throw Error(ErrorCode::invalid_argument, "'" + path + "' leaves the folder of its spec, " +
                                                 folder_.string() +
                                                 "; a spec reads nothing outside of it");
  }
  if (file.get() < 0) {
    throw Error(ErrorCode::not_found,
                "there is no file '" + path + "' in the spec's folder " + folder_.string());
  }
  try {
    return read_regular_file("/proc/self/fd/" + std::to_string(file.get()), most_bytes);
  } catch (const Error&) {
    throw Error(ErrorCode::unreadable, "'" + path + "' of the spec is no regular file of at most " +
                                           std::to_string(most_bytes) + " bytes");
  }
}

}  // namespace swr::kernel_spec
