// SPDX-License-Identifier: MIT
// Runs the built program on a terminal of its own.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace swr::test {

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
