// SPDX-License-Identifier: MIT
#include "tuner/cli/output_file.h"

#include "tuner/cli/output_guard.h"
#include <swr/error.h>

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kAsUmaskSays = 0666;
constexpr mode_t kPermissions = 07777;

[[noreturn]] void fail_to_open(const fs::path& path) {
  throw Error(ErrorCode::not_writable, "cannot write " + path.string() + " (" +
                                           std::generic_category().message(errno) +
                                           "); choose a file in a writable directory");
}

[[noreturn]] void fail_to_write(const fs::path& path) {
  throw Error(ErrorCode::not_writable, "cannot write all of " + path.string() + " (" +
                                           std::generic_category().message(errno) +
                                           "); a file that was there is as it was");
}

/// Another descriptor of standard output or error when the path leads there: opened anew, a file
/// would be written from its beginning, over what was printed.
int printed_to(const fs::path& path) {
  struct stat asked {};
  for (const int printed : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (stat(path.c_str(), &asked) == 0 && fstat(printed, &status) == 0 &&
        asked.st_dev == status.st_dev && asked.st_ino == status.st_ino) {
      return fcntl(printed, F_DUPFD_CLOEXEC, 0);
    }
  }
  return -1;
}

/// What must not be replaced by a file of its name; none when the path is no such thing.
FileDescriptor open_in_place(const fs::path& path) {
  FileDescriptor file(printed_to(path));
  if (file.get() < 0 && is_special(path)) {
    file = FileDescriptor(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (file.get() < 0) {
      fail_to_open(path);
    }
  }
  return file;
}

void require_no_directory(const fs::path& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure) || path.empty()) {
    errno = path.empty() ? ENOENT : EISDIR;
    fail_to_open(path);
  }
}

}  // namespace

OutputFile::OutputFile(const Session& session, fs::path path)
    : session_(session), path_(std::move(path)), target_(link_target(path_)) {
  require_replaceable(session, path_);
  require_no_directory(path_);
  in_place_ = open_in_place(path_);
  if (in_place_.get() >= 0) {
    return;
  }
  if (access(target_.c_str(), F_OK) == 0 && access(target_.c_str(), W_OK) != 0) {
    fail_to_open(path_);  // A write-protected file is not replaced either.
  }
  if (replacing_.emplace(target_, kAsUmaskSays).get() < 0) {
    fail_to_open(path_);
  }
}

void OutputFile::finish() {
  session_.out.flush();  // Comes first where both go to one place.
  if (!write_all(replacing_ ? replacing_->get() : in_place_.get(), text_.view())) {
    fail_to_write(path_);
  }
  if (replacing_) {
    publish();
  }
}

/// Replaces the target, with the permissions of the one that was there.
void OutputFile::publish() {
  require_replaceable(session_, path_);  // Hours may have passed.
  struct stat former {};
  const bool is_there = stat(target_.c_str(), &former) == 0;
  if (!replacing_->publish(is_there ? std::optional(former.st_mode & kPermissions)
                                    : std::nullopt)) {
    fail_to_write(path_);
  }
}

void LiveOutput::open(const Session& session, const fs::path& path) {
  require_replaceable(session, path);
  require_no_directory(path);
  FileDescriptor file = open_in_place(path);
  if (file.get() < 0) {
    file = FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kAsUmaskSays));
  }
  if (file.get() < 0) {
    fail_to_open(path);
  }
  buffer_.reset(std::move(file));
  stream_.rdbuf(&buffer_);
}

LiveOutput::Buffer::int_type LiveOutput::Buffer::overflow(int_type character) {
  if (!traits_type::eq_int_type(character, traits_type::eof())) {
    waiting_ += traits_type::to_char_type(character);
  }
  return traits_type::not_eof(character);
}

std::streamsize LiveOutput::Buffer::xsputn(const char* text, std::streamsize count) {
  waiting_.append(text, static_cast<std::size_t>(count));
  return count;
}

int LiveOutput::Buffer::sync() {
  const std::string text = std::exchange(waiting_, {});
  return write_all(file_.get(), text) ? 0 : -1;
}

}  // namespace swr::cli
