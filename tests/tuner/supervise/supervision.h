// SPDX-License-Identifier: MIT
// What the tests of supervision share: a directory for the worker, and the place where a waiting
// variant says that it waits.
#pragma once

#include "tests/support/temp_directory.h"
#include "tests/tuner/supervise/behaviours.h"
#include "tuner/supervise/supervised_evaluator.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swr::test {

/// The reading end of the meeting place; opening it waits for a process that waits there.
class Meeting {
 public:
  explicit Meeting(const std::filesystem::path& directory)
      : pipe_(open((directory / kMeetingPlace).c_str(), O_RDONLY)) {}

  /// The id of the process that waits.
  pid_t process() const {
    std::string text;
    char letter = 0;
    while (read(pipe_.get(), &letter, 1) == 1 && letter != '\n') {
      text += letter;
    }
    return std::stoi(text);
  }
  /// Returns when that process has ended.
  void wait_for_its_end() const {
    char letter = 0;
    while (read(pipe_.get(), &letter, 1) > 0) {
    }
  }

 private:
  FileDescriptor pipe_;
};

/// Where a worker leaves its marks.
class WorkerDirectory {
 public:
  WorkerDirectory() { mkfifo((directory_ / kMeetingPlace).c_str(), 0600); }

  const std::filesystem::path& path() const { return directory_.path(); }
  SuperviseOptions options(const std::string& mood = "") const {
    return {.command = {SWR_TEST_WORKER, {path().string(), mood}}, .deadline = {}};
  }

 private:
  TempDirectory directory_;
};

/// The process that a good result was measured in.
inline pid_t process_of(const VariantResult& result) {
  return std::stoi(result.detail.substr(result.detail.find(' ') + 1));
}

/// Kills a child of this process and returns when it is dead; its parent's own wait still finds it.
inline void kill_and_wait(pid_t process, int signal = SIGKILL) {
  kill(process, signal);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT);
}

}  // namespace swr::test
