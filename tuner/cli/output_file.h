// SPDX-License-Identifier: MIT
// Files that commands write: guarded against replacing data (output_guard.h), and never torn.
#pragma once

#include "core/files.h"
#include "tuner/cli/commands.h"

#include <filesystem>
#include <optional>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

namespace swr::cli {

/// A text that appears whole or not at all: it is kept in memory and written as an AtomicFile. A
/// full disk, an error or a kill leaves what was there. What is no regular file (a pipe, /dev/null)
/// and standard output and error are written to directly.
class OutputFile {
 public:
  /// Throws: Error{invalid_argument} of require_replaceable(); Error{not_writable} when nothing can
  /// be created there.
  OutputFile(const Session& session, std::filesystem::path path);
  std::ostream& text() { return text_; }

  /// Puts the text in place; without it nothing is written. Call it once. Throws:
  /// Error{not_writable}.
  void finish();

 private:
  void publish();

  const Session& session_;
  std::filesystem::path path_;           ///< As it was named.
  std::filesystem::path target_;         ///< The file itself.
  std::optional<AtomicFile> replacing_;  ///< Empty when the target is written to directly.
  FileDescriptor in_place_;
  std::ostringstream text_;
};

/// Text that others read while it is written: a file from its beginning, or what a path leads to.
class LiveOutput {
 public:
  LiveOutput() : stream_(nullptr) {}
  /// Throws: as OutputFile's constructor.
  void open(const Session& session, const std::filesystem::path& path);

  /// Takes nothing before open().
  std::ostream& stream() { return stream_; }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(int descriptor) : file_(descriptor) {}
    void reset(FileDescriptor file) { file_ = std::move(file); }

   protected:
    int_type overflow(int_type character) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    FileDescriptor file_;
    std::string waiting_;
  };

  Buffer buffer_{-1};
  std::ostream stream_;
};

/// The file that is written when `path` is: links are followed, whether or not their target exists.
std::filesystem::path link_target(const std::filesystem::path& path);

/// True for what is there and is no regular file, such as a pipe or a terminal: it is written to
/// and never replaced.
bool is_special(const std::filesystem::path& path);

/// Refuses a file whose replacing loses data: the command's database and SQLite's files beside it,
/// an input of the command, by any name or link, and every file that is an SQLite database.
/// Throws: Error{invalid_argument}.
void require_replaceable(const Session& session, const std::filesystem::path& path);

/// Refuses a directory that is replaced as a whole and holds the database or an input.
/// Throws: Error{invalid_argument}.
void require_replaceable_directory(const Session& session, const std::filesystem::path& directory);

/// Checks everything that the command line names for writing, before any work: each output by
/// require_replaceable(), that no two are one file, and that no database has the name of one of
/// the files that SQLite keeps beside another. Throws: Error{invalid_argument}.
void check_outputs(const Session& session);

}  // namespace swr::cli
