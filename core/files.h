// SPDX-License-Identifier: MIT
// Files that others may have put anything into the place of, or that several processes share: how
// they are opened, read, replaced and locked.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace swr {

/// Owner of a POSIX file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  /// -1 once closed, which poll() passes over.
  int get() const { return number_; }
  void close() {
    if (number_ >= 0) {
      ::close(std::exchange(number_, -1));
    }
  }

 private:
  int number_ = -1;
};

/// Whether a path's last name may be a symbolic link to the file that is meant.
enum class Links { followed, refused };

/// A regular file that is open for reading. Opening waits for nobody: others, such as pipes, could
/// keep their reader for ever, and are refused.
class RegularFile {
 public:
  /// Throws: Error{not_found} when it cannot be opened, as a link that is refused;
  /// Error{unreadable} when it is no regular file.
  explicit RegularFile(std::filesystem::path path, Links links = Links::followed);

  /// As of the opening.
  const struct stat& status() const { return status_; }
  /// What is there from `offset` on, at most `most_bytes`; shorter only at the file's end.
  /// Throws: Error{unreadable}.
  std::string read(std::size_t offset, std::size_t most_bytes) const;
  /// The whole of it. Throws: also Error{unreadable} when it is longer than `most_bytes`.
  std::string read_whole(std::size_t most_bytes) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  struct stat status_ {};
};

/// The whole of a RegularFile. Throws: as its constructor and read_whole().
std::string read_regular_file(const std::filesystem::path& path, std::size_t most_bytes);

/// False with errno set when the text was not taken whole.
bool write_all(int descriptor, std::string_view text);

/// A file that appears under its name whole or not at all: it is written beside the target and
/// renamed over it. Until then it has no name where the file system can, so that a process that is
/// killed leaves nothing. Without publish() nothing remains.
class AtomicFile {
 public:
  /// `mode` less the process's umask. When it failed get() is -1 and errno says why.
  AtomicFile(std::filesystem::path target, mode_t mode);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  int get() const { return file_.get(); }
  /// Forces what was written to disk and gives it its name, with exactly this mode where there is
  /// one. False with errno set when that failed.
  bool publish(std::optional<mode_t> mode = {});

 private:
  bool give_name();

  std::filesystem::path target_;
  std::string name_;  ///< Empty while it has none, and once it is its target.
  FileDescriptor file_;
};

/// Replaces the file by an AtomicFile that all can read. Throws: Error{not_writable}.
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Waits for the advisory lock on `path`, which is created when missing; held until the result is
/// destroyed. Excludes other threads and other processes for at most `longest`: whoever holds it
/// may have been stopped. Where the file system has no locks nothing is excluded either, so a lock
/// may save work but must not be what keeps data valid.
FileDescriptor lock_file(const std::filesystem::path& path, std::chrono::milliseconds longest);

/// Who may have put something into a folder that is believed.
enum class Sharing {
  none,   ///< This user and root.
  group,  ///< The members of the folder's group too.
};

constexpr Sharing sharing(bool with_group) { return with_group ? Sharing::group : Sharing::none; }

/// Whether a folder or a file is this user's or root's and only those of `sharing` may write to it.
/// For root, which containers run as, any owner is as good.
bool is_trusted(const struct stat& status, Sharing sharing);

}  // namespace swr
