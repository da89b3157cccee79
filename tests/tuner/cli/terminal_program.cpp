// SPDX-License-Identifier: MIT
#include "tests/tuner/cli/terminal_program.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <pty.h>
#include <stdexcept>
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

}  // namespace

TerminalProgram::TerminalProgram(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, int columns) {
  std::vector<std::string> argument_texts{SWR_TUNE_PROGRAM};
  argument_texts.insert(argument_texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment_texts = environment;
  const std::vector<char*> argv = pointers(argument_texts);
  const std::vector<char*> envp = pointers(environment_texts);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  child_ = forkpty(&terminal_, nullptr, nullptr, &size);
  if (child_ < 0) {
    throw std::runtime_error("no terminal for the child");
  }
  if (child_ == 0) {
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
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
