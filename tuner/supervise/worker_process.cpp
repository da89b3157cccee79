// SPDX-License-Identifier: MIT
#include "tuner/supervise/worker_process.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::driver_failed, std::string("cannot start a process to work in: ") + what +
                                            " failed (" + std::strerror(errno) +
                                            "); free some processes or memory");
}

struct Ends {
  FileDescriptor ours;
  FileDescriptor theirs;
};

/// Waiting is poll()'s task; a call on our end never blocks.
Ends make_ends(const std::array<int, 2>& numbers) {
  Ends ends{FileDescriptor(numbers[0]), FileDescriptor(numbers[1])};
  if (fcntl(ends.ours.get(), F_SETFL, fcntl(ends.ours.get(), F_GETFL) | O_NONBLOCK) != 0) {
    refuse("fcntl");
  }
  return ends;
}

Ends make_connection() {
  std::array<int, 2> numbers{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers.data()) != 0) {
    refuse("socketpair");
  }
  return make_ends(numbers);
}

Ends make_pipe() {
  std::array<int, 2> numbers{};
  if (pipe2(numbers.data(), O_CLOEXEC) != 0) {
    refuse("pipe2");
  }
  return make_ends(numbers);
}

/// Runs between fork and exec, where only async-signal-safe calls are allowed: the tuner has
/// threads.
[[noreturn]] void become_worker(pid_t tuner, char* const* arguments, int connection, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit nothing{0, 0};
  setrlimit(RLIMIT_CORE, &nothing);  // Of a process that holds a GPU's memory it is gigabytes.
  if (getppid() != tuner) {          // It died before the line above.
    _exit(0);
  }
  // Above the numbers that are about to be replaced.
  connection = fcntl(connection, F_DUPFD, STDERR_FILENO + 1);
  output = fcntl(output, F_DUPFD, STDERR_FILENO + 1);
  dup2(connection, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, std::numeric_limits<unsigned>::max(), 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // The tuner's threads block SIGINT.
  execv(arguments[0], arguments);
  constexpr std::string_view kMessage = "the program cannot be executed\n";
  [[maybe_unused]] const ssize_t count = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  constexpr int kCannotExecute = 127;
  _exit(kCannotExecute);
}

pid_t start(const WorkerCommand& command, int connection, int output) {
  std::vector<std::string> texts{command.program.string()};
  texts.insert(texts.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) {
    arguments.push_back(text.data());
  }
  arguments.push_back(nullptr);
  const pid_t tuner = getpid();
  const pid_t process = fork();
  if (process < 0) {
    refuse("fork");
  }
  if (process == 0) {
    become_worker(tuner, arguments.data(), connection, output);
  }
  setpgid(process, process);  // Both sides do it: the group must exist before it can be killed.
  return process;
}

/// The status of a killed process; empty when it does not end, because a driver call holds it in
/// the kernel: waiting for that would hang the tuner as well.
std::optional<int> reap(pid_t process) {
  constexpr milliseconds kPatience{30'000};
  constexpr milliseconds kPause{1};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process) {
      return status;
    }
    if (ended < 0 && errno != EINTR) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

std::string ending(int status) {
  if (WIFEXITED(status)) {
    return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  const char* const name = sigabbrev_np(signal);
  const char* const meaning = sigdescr_np(signal);
  return "was ended by signal " + (name != nullptr ? std::string("SIG") + name : "") + " (" +
         (meaning != nullptr ? meaning : std::to_string(signal)) + ")";
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n\r");
  if (end == std::string_view::npos) {
    return "";
  }
  text = text.substr(0, end + 1);
  const std::size_t line_break = text.find_last_of("\n\r");
  return std::string(line_break == std::string_view::npos ? text : text.substr(line_break + 1));
}

/// What it uses of the machine's memory; 0 for a process that has ended.
long long resident_bytes(pid_t process) {
  constexpr std::size_t kMostBytes = 4096;
  long long pages = 0;
  try {
    const std::string sizes =
        read_regular_file("/proc/" + std::to_string(process) + "/statm", kMostBytes);
    const std::size_t second = sizes.find(' ') + 1;
    std::from_chars(sizes.data() + second, sizes.data() + sizes.size(), pages);
  } catch (const Error&) {
  }
  return pages * sysconf(_SC_PAGESIZE);
}

int poll_limit_ms(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerCommand& command)
    : role_(command.role), memory_bytes_(command.memory_bytes) {
  Ends connection = make_connection();
  Ends output = make_pipe();
  process_ = start(command, connection.theirs.get(), output.theirs.get());
  socket_ = std::move(connection.ours);
  output_ = std::move(output.ours);
}

WorkerProcess::~WorkerProcess() {
  if (process_ > 0) {
    kill(-process_, SIGKILL);
    reap(process_);
  }
}

bool WorkerProcess::is_waiting() const {
  pollfd event{socket_.get(), POLLIN, 0};
  return process_ > 0 && poll(&event, 1, 0) == 0;
}

void WorkerProcess::post(const Json& request) {
  unsent_ += encode_frame(request);
  send_some();
}

WorkerProcess::Reply WorkerProcess::exchange(milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  try {
    for (;;) {
      if (auto document = frames_.next()) {
        if (!document->is_object() || !document->contains("note")) {
          return *std::move(document);
        }
        note_ = std::move((*document)["note"]);
        continue;
      }
      if (!wait_for_events(deadline)) {
        return Silence{ResultState::timeout,
                       with_last_words("no answer from the " + role_ + " within " +
                                       std::to_string(limit.count()) + " ms")};
      }
      if (has_too_much_memory()) {
        return Silence{ResultState::crash,
                       with_last_words("the " + role_ + " was ended because it used more than " +
                                       std::to_string(*memory_bytes_ >> 20) + " MiB of memory")};
      }
      listen_to_output();
      send_some();
      if (!receive_some()) {
        return Silence{ResultState::crash, with_last_words(how_it_ended())};
      }
    }
  } catch (const Error& error) {  // No frame: its memory is damaged.
    return Silence{ResultState::crash, with_last_words(error.what())};
  }
}

bool WorkerProcess::has_too_much_memory() const {
  return memory_bytes_ && resident_bytes(process_) > *memory_bytes_;
}

/// False when the time is over. Also returns when it is time to look at the memory again.
bool WorkerProcess::wait_for_events(Clock::time_point deadline) {
  constexpr milliseconds kBetweenLooks{50};
  const auto next_look = memory_bytes_ ? Clock::now() + kBetweenLooks : Clock::time_point::max();
  const short socket_events = static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT));
  std::array<pollfd, 2> events{pollfd{socket_.get(), socket_events, 0},
                               pollfd{output_.get(), POLLIN, 0}};
  for (;;) {
    const int limit_ms = poll_limit_ms(deadline);
    const int ready =
        poll(events.data(), events.size(), std::min(limit_ms, poll_limit_ms(next_look)));
    if (ready == 0 && Clock::now() >= next_look && limit_ms > 0) {
      return true;
    }
    // A tuner that was stopped and continued looks once more before it judges.
    if (ready > 0 || (ready == 0 && limit_ms == 0)) {
      return ready > 0;
    }
  }
}

void WorkerProcess::send_some() {
  const ssize_t count = send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
  unsent_.erase(0, count > 0 ? static_cast<std::size_t>(count) : 0);
}

/// False when the process has closed its end.
bool WorkerProcess::receive_some() {
  std::array<char, 65536> buffer{};
  const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (count > 0) {
    frames_.add({buffer.data(), static_cast<std::size_t>(count)});
  }
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/// Reads at most one buffer, so that a process that prints without end still meets its deadline.
void WorkerProcess::listen_to_output() {
  constexpr std::size_t kKeptBytes = 4096;
  std::array<char, kKeptBytes> buffer{};
  const ssize_t count = read(output_.get(), buffer.data(), buffer.size());
  if (count > 0) {
    printed_.append(buffer.data(), static_cast<std::size_t>(count));
    printed_.erase(0, printed_.size() - std::min(printed_.size(), kKeptBytes));
  } else if (count == 0) {
    output_.close();
  }
}

std::string WorkerProcess::how_it_ended() {
  kill(-process_, SIGKILL);  // Changes nothing for a process that has ended already.
  const std::optional<int> status = reap(std::exchange(process_, -1));
  return "the " + role_ + " " + (status ? ending(*status) : "ended");
}

std::string WorkerProcess::with_last_words(std::string text) {
  // A pipe holds 16 of these buffers.
  for (int i = 0; i < 16; ++i) {
    listen_to_output();
  }
  const std::string words = last_line(printed_);
  return text + (words.empty() ? "" : "; its last words: " + words);
}

}  // namespace swr
