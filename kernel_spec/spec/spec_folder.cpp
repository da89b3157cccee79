// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/spec_folder.h"

#include "core/files.h"
#include "core/header_names.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace swr::kernel_spec {
namespace {

std::string link_to(const FileDescriptor& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

/// The system is asked where the open file lies, links and all, so that nobody can put a link
/// between the check and the reading. openat2 would do it in one call, but Linux before 5.6 and
/// some sandboxes do not have it.
bool is_beneath(const FileDescriptor& file, const FileDescriptor& folder) {
  std::error_code no_file;
  std::error_code no_folder;
  const std::string of_file = std::filesystem::read_symlink(link_to(file), no_file);
  const std::string of_folder = std::filesystem::read_symlink(link_to(folder), no_folder);
  return !no_file && !no_folder && of_file.starts_with(of_folder == "/" ? "/" : of_folder + "/");
}

/// What is outside is refused whether it is there or not.
bool names_what_is_outside(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.is_absolute() || (!normal.empty() && *normal.begin() == "..");
}

}  // namespace

SpecFolder::SpecFolder(const std::filesystem::path& folder)
    : folder_(folder.empty() ? "." : folder),
      descriptor_(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_.get() < 0) {
    throw Error(ErrorCode::not_found, "there is no folder " + folder_.string());
  }
}

/// No data is read and no device is touched before it is known where the file lies.
FileDescriptor SpecFolder::find(const std::string& path) const {
  return FileDescriptor(openat(descriptor_.get(), path.c_str(), O_PATH | O_CLOEXEC));
}

bool SpecFolder::is_left_by(const std::string& path, const FileDescriptor& found) const {
  return names_what_is_outside(path) || (found.get() >= 0 && !is_beneath(found, descriptor_));
}

bool SpecFolder::has(const std::string& path) const {
  const FileDescriptor file = find(path);
  struct stat status {};
  return file.get() >= 0 && !is_left_by(path, file) && fstat(file.get(), &status) == 0 &&
         S_ISREG(status.st_mode) && access(link_to(file).c_str(), R_OK) == 0;
}

std::string SpecFolder::read(const std::string& path, std::size_t most_bytes) const {
  const FileDescriptor file = find(path);
  if (is_left_by(path, file)) {
    throw Error(ErrorCode::invalid_argument, "'" + path + "' leaves the folder of its spec, " +
                                                 folder_.string() +
                                                 "; a spec reads nothing outside of it");
  }
  if (file.get() < 0) {
    throw Error(ErrorCode::not_found,
                "there is no file '" + path + "' in the spec's folder " + folder_.string());
  }
  try {
    return read_regular_file(link_to(file), most_bytes);
  } catch (const Error&) {
    throw Error(ErrorCode::unreadable, "'" + path + "' of the spec is no regular file of at most " +
                                           std::to_string(most_bytes) + " bytes");
  }
}

std::map<std::string, std::string> headers_below(const SpecFolder& folder, const std::string& file,
                                                 const std::string& text,
                                                 const std::vector<std::string>& include_folders) {
  constexpr std::size_t kMostHeaders = 4096;
  std::map<std::string, std::string> headers;
  std::vector<std::pair<std::string, std::string_view>> unread{{file, text}};
  while (!unread.empty()) {
    const auto [includer, including] = unread.back();
    unread.pop_back();
    with_header_paths(including, [&, &includer = includer](const HeaderName& name) {
      for (const std::string& place : header_places(name, includer, include_folders)) {
        if (headers.contains(place)) {
          break;
        }
        if (folder.has(place)) {
          if (headers.size() == kMostHeaders) {
            refuse_spec(file, "it names more than " + std::to_string(kMostHeaders) + " headers");
          }
          unread.emplace_back(place, headers[place] = folder.read(place, kMostSourceBytes));
          break;
        }
      }
      return std::string();
    });
  }
  return headers;
}

}  // namespace swr::kernel_spec
