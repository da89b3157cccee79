// SPDX-License-Identifier: MIT
// Files that commands write: guarded against replacing data (output_guard.h), and never torn.
#pragma once

#include "generator/file_io.h"
#include "tuner/cli/commands.h"

#include <filesystem>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

namespace swr::cli {

/// A text that appears whole or not at all: it is kept in memory, written to a temporary file
/// beside its target and renamed. A full disk, an error or a kill leaves what was there. What is no
/// regular file (a pipe, /dev/null) and standard output and error are written to directly.
class OutputFile {
 public:
  /// Throws: Error{invalid_argument} of require_replaceable(); Error{not_writable} when nothing can
  /// be created there.
  OutputFile(const Session& session, std::filesystem::path path);
  /// Without finish() nothing is written.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& text() { return text_; }

  /// Puts the text in place. Call it once. Throws: Error{not_writable}.
  void finish();

 private:
  void create_temporary();
  void publish();

  const Session& session_;
  std::filesystem::path path_;       ///< As it was named.
  std::filesystem::path target_;     ///< The file itself.
  std::filesystem::path temporary_;  ///< Empty when the target is written to directly.
  FileDescriptor file_{-1};
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

}  // namespace swr::cli
