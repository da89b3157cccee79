// SPDX-License-Identifier: MIT
#include "tuner/cli/output_file.h"

#include "core/reject.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kCompanions{"-wal", "-shm", "-journal"};

/// A file that must stay as it is, and what it is to the command.
struct Kept {
  fs::path path;
  std::string role;
};

[[noreturn]] void refuse(const fs::path& path, const std::string& cause) {
  reject("will not write to " + path.string() + ": it is " + cause +
         "; choose another file for the output");
}

bool is_sqlite_database(const fs::path& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) {
    return false;  // Opening a pipe would tell its writer that somebody reads.
  }
  try {
    return RegularFile(path).read(0, kMagic.size()) == kMagic;
  } catch (const Error&) {
    return false;
  }
}

/// The name less a companion's ending; empty for other names.
fs::path database_beside(const fs::path& path) {
  const std::string text = path.string();
  for (const std::string_view ending : kCompanions) {
    if (text.size() > ending.size() && text.ends_with(ending)) {
      return text.substr(0, text.size() - ending.size());
    }
  }
  return {};
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  const bool is_same = fs::equivalent(a, b, failure);
  return (is_same && !failure) || link_target(a) == link_target(b);
}

bool is_within(const fs::path& path, const fs::path& directory) {
  const fs::path inner = link_target(path);
  const fs::path outer = link_target(directory);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Empty where a command has no default database and needs none.
fs::path database_of(const Session& session) {
  try {
    return database_path(session);
  } catch (const Error&) {
    return {};
  }
}

void add_database(std::vector<Kept>& kept, const fs::path& path, const std::string& role) {
  if (path.empty()) {
    return;
  }
  kept.push_back({path, role});
  for (const char* ending : kCompanions) {
    kept.push_back(
        {link_target(path).string() + ending, "a file that SQLite keeps beside " + role});
  }
}

std::vector<Kept> kept_files(const Session& session) {
  std::vector<Kept> kept;
  add_database(kept, database_of(session), "the database of this command");
  std::error_code failure;
  for (const fs::path& input : session.common.inputs) {
    if (!fs::exists(input, failure)) {
      continue;  // Such as a GPU's name.
    }
    if (is_sqlite_database(input)) {
      add_database(kept, input, "a database that this command reads");
    } else {
      kept.push_back({input, "an input of this command"});
    }
  }
  return kept;
}

std::vector<Kept> kept_directories(const Session& session) {
  std::vector<Kept> kept;
  const CommonOptions& options = session.common;
  if (options.templates || session.environment.templates) {
    kept.push_back(
        {options.templates ? *options.templates : fs::path(*session.environment.templates),
         "among the templates of this command"});
  }
  for (const fs::path& queue : options.queues) {
    kept.push_back({queue / "queue", "part of the queue of this command"});
  }
  return kept;
}

void require_distinct(const std::vector<fs::path>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (is_same_file(outputs[i], outputs[j])) {
        refuse(outputs[i], "named for two outputs");
      }
    }
  }
}

/// SQLite would take such a database for its own file and delete it.
void require_database_name(const fs::path& path) {
  const fs::path other = database_beside(link_target(path));
  if (is_sqlite_database(other)) {
    reject(path.string() + " cannot be a database: SQLite keeps a file of this name beside " +
           other.string() + "; choose another name");
  }
}

}  // namespace

fs::path link_target(const fs::path& path) {
  constexpr int kMostLinks = 40;  // As the kernel follows.
  std::error_code failure;
  fs::path target = fs::absolute(path, failure);
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, failure); ++i) {
    const fs::path next = fs::read_symlink(target, failure);
    if (failure) {
      break;
    }
    target = target.parent_path() / next;
  }
  fs::path plain = fs::weakly_canonical(target, failure);
  plain = failure ? target.lexically_normal() : plain;
  return plain.has_filename() ? plain : plain.parent_path();
}

bool is_special(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void require_replaceable(const Session& session, const fs::path& path) {
  if (is_special(path)) {
    return;
  }
  for (const Kept& kept : kept_files(session)) {
    if (is_same_file(path, kept.path)) {
      refuse(path, kept.role);
    }
  }
  for (const Kept& kept : kept_directories(session)) {
    if (is_within(path, kept.path)) {
      refuse(path, kept.role);
    }
  }
  if (is_sqlite_database(path)) {
    refuse(path, "an SQLite database");
  }
  if (const fs::path other = database_beside(link_target(path)); is_sqlite_database(other)) {
    refuse(path, "a file that SQLite keeps beside the database " + other.string());
  }
}

void require_replaceable_directory(const Session& session, const fs::path& directory) {
  for (const Kept& kept : kept_files(session)) {
    if (is_within(kept.path, directory)) {
      reject("will not replace " + directory.string() + ": it holds " + kept.path.string() + ", " +
             kept.role + "; name a new directory");
    }
  }
}

void check_outputs(const Session& session) {
  if (const fs::path database = database_of(session); !database.empty()) {
    require_database_name(database);
  }
  std::vector<fs::path> outputs = session.common.outputs;
  std::erase_if(outputs, is_special);
  for (const fs::path& output : outputs) {
    require_replaceable(session, output);
  }
  require_distinct(outputs);
  for (const fs::path& folder : session.common.replaced_folders) {
    require_replaceable_directory(session, folder);
  }
}

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
