// SPDX-License-Identifier: MIT
#include "tests/tuner/cli/program.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
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

}  // namespace

Program::Program(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, const std::filesystem::path& scratch)
    : out_file_(scratch / "stdout.txt") {
  std::vector<std::string> argument_texts{SWR_TUNE_PROGRAM};
  argument_texts.insert(argument_texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment_texts = environment;
  const std::vector<char*> argv = pointers(argument_texts);
  const std::vector<char*> envp = pointers(environment_texts);
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
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
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

}  // namespace swr::test
