// SPDX-License-Identifier: MIT
// Runs the built program as a child process with an environment of its own, or on a terminal.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/types.h>
#include <vector>

namespace swr::test {

/// Arguments of the program as a person writes them.
class Arguments : public std::vector<std::string> {
 public:
  Arguments() = default;
  /// The words between blanks.
  Arguments(const std::string& line) {
    std::istringstream words(line);
    assign(std::istream_iterator<std::string>(words), {});
  }
  Arguments(const char* line) : Arguments(std::string(line)) {}
  /// Each as it is, blanks and all.
  Arguments(std::initializer_list<std::string> words) : vector(words) {}

  Arguments& operator+=(const Arguments& more) {
    insert(end(), more.begin(), more.end());
    return *this;
  }
  friend Arguments operator+(Arguments first, const Arguments& more) { return first += more; }
};

struct ProgramResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// A child process whose files are under a directory of the caller.
class Program {
 public:
  /// `environment` holds NAME=value; nothing else is inherited.
  Program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
          const std::filesystem::path& scratch);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Blocks until the child has written `text` to stderr or has closed it.
  void wait_for_stderr(const std::string& text);

  void send_signal(int signal) const;

  /// Waits for the end. Killed by a signal gives 128 + the signal.
  ProgramResult finish();

 private:
  std::filesystem::path out_file_;
  int err_pipe_ = -1;
  pid_t child_ = -1;
  std::string err_;
};

/// Standard output and standard error are one terminal of so many columns.
class TerminalProgram {
 public:
  TerminalProgram(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& environment, int columns);
  ~TerminalProgram();
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  /// Blocks until the terminal shows the text, or the program has ended.
  void wait_for(const std::string& text);
  /// As Ctrl-C: the terminal sends SIGINT to the program.
  void interrupt() const;
  /// Waits for the end; returns the exit code, or 128 + the signal.
  int finish();

  /// All that was written, with "\n" at the ends of lines.
  const std::string& text() const { return text_; }

 private:
  bool read_some();

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string text_;
};

}  // namespace swr::test
