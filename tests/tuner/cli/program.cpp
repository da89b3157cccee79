// SPDX-License-Identifier: MIT
#include "tests/tuner/cli/program.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <pty.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace swr::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) {
    all.push_back(text.data());
  }
  all.push_back(nullptr);
  return all;
}

[[noreturn]] void become_program(std::vector<std::string> arguments,
                                 std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), SWR_TUNE_PROGRAM);
  execve(SWR_TUNE_PROGRAM, pointers(arguments).data(), pointers(environment).data());
  _exit(127);
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, const std::filesystem::path& scratch)
    : out_file_(scratch / "stdout.txt") {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) {
    throw std::runtime_error("no pipe for the child");
  }
  child_ = fork();
  if (child_ == 0) {
    const int out = open(out_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    become_program(arguments, environment);
  }
  close(pipe_ends[1]);
  err_pipe_ = pipe_ends[0];
}

Program::~Program() {
  if (err_pipe_ >= 0) {
    close(err_pipe_);
  }
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
}

void Program::wait_for_stderr(const std::string& text) {
  std::array<char, 4096> buffer{};
  while (text.empty() || err_.find(text) == std::string::npos) {
    const ssize_t count = read(err_pipe_, buffer.data(), buffer.size());
    if (count <= 0) {
      return;
    }
    err_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void Program::send_signal(int signal) const { kill(child_, signal); }

ProgramResult Program::finish() {
  wait_for_stderr("");
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  std::ifstream out;
  if (std::filesystem::is_regular_file(out_file_)) {  // /dev/full would be read without end.
    out.open(out_file_);
  }
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = {std::istreambuf_iterator<char>(out), {}},
          .err = err_};
}

TerminalProgram::TerminalProgram(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, int columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  child_ = forkpty(&terminal_, nullptr, nullptr, &size);
  if (child_ < 0) {
    throw std::runtime_error("no terminal for the child");
  }
  if (child_ == 0) {
    become_program(arguments, environment);
  }
}

TerminalProgram::~TerminalProgram() {
  close(terminal_);
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
}

bool TerminalProgram::read_some() {
  std::array<char, 4096> buffer{};
  const ssize_t count = read(terminal_, buffer.data(), buffer.size());
  if (count <= 0) {
    return false;  // EIO once the program has ended.
  }
  text_.append(buffer.data(), static_cast<std::size_t>(count));
  // The terminal turns each end of a line into two characters.
  for (std::size_t at = text_.find("\r\n"); at != text_.npos; at = text_.find("\r\n")) {
    text_.erase(at, 1);
  }
  return true;
}

void TerminalProgram::wait_for(const std::string& text) {
  while (text_.find(text) == text_.npos && read_some()) {
  }
}

void TerminalProgram::interrupt() const {
  const char ctrl_c = '\x03';
  if (write(terminal_, &ctrl_c, 1) != 1) {
    throw std::runtime_error("the terminal takes no key");
  }
}

int TerminalProgram::finish() {
  while (read_some()) {
  }
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace swr::test
