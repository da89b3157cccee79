// SPDX-License-Identifier: MIT
// Runs the built program as a child process with an environment of its own.
#pragma once

#include "tests/tuner/cli/arguments.h"

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace swr::test {

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

}  // namespace swr::test
