// SPDX-License-Identifier: MIT
// The tuner's side of a process that measures or compiles: starts it, asks it, notices that it died
// or hangs, and never leaves it behind.
#pragma once

#include "core/files.h"
#include "core/json.h"
#include "tuner/supervise/protocol.h"
#include <swr/result.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace swr {

/// A program that calls serve_evaluator() on its standard input.
struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  /// What it is, in messages.
  std::string role = "measuring process";
  /// Resident memory above which it is given up. Addresses that it reserves and does not use do not
  /// count.
  std::optional<long long> memory_bytes = std::nullopt;
};

/// Why there is no answer; the process is to be given up.
struct Silence {
  ResultState state = ResultState::crash;  ///< crash or timeout.
  std::string detail;
};

/// A child in a process group of its own, so that Ctrl-C reaches the tuner alone and the whole
/// group can be killed. It dies with the thread that started it. Its standard input is the
/// connection; what it prints is kept for error messages.
class WorkerProcess {
 public:
  using Reply = std::variant<Json, Silence>;

  /// Throws: Error{driver_failed} when the system refuses a process.
  explicit WorkerProcess(const WorkerCommand& command);
  /// Kills the group.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Waits for what the process says first.
  Reply receive(std::chrono::milliseconds limit) { return exchange(limit); }
  /// Sends a request and waits for the answer.
  Reply ask(const Json& request, std::chrono::milliseconds limit) {
    unsent_ += encode_frame(request);
    return exchange(limit);
  }
  /// Sends a request whose answer receive() gets later.
  void post(const Json& request);
  /// The last {"note": ...} that the process sent ahead of an answer; null where there was none.
  const Json& note() const { return note_; }
  /// False when the process has died, or speaks without having been asked.
  bool is_waiting() const;

 private:
  using Clock = std::chrono::steady_clock;

  Reply exchange(std::chrono::milliseconds limit);
  bool wait_for_events(Clock::time_point deadline);
  bool has_too_much_memory() const;
  void send_some();
  bool receive_some();
  void listen_to_output();
  std::string how_it_ended();
  std::string with_last_words(std::string text);

  std::string role_;
  std::optional<long long> memory_bytes_;
  pid_t process_ = -1;
  FileDescriptor socket_;
  FileDescriptor output_;
  FrameReader frames_;
  Json note_;
  std::string unsent_;  ///< What the process could not take yet.
  /// The end of what the process printed.
  std::string printed_;
};

}  // namespace swr
