// SPDX-License-Identifier: MIT
// A compiling process that misbehaves as the source says.
#include "tuner/supervise/supervised_compiler.h"
#include <swr/error.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace swr {
namespace {

[[noreturn]] void crash() {
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

/// More than serve_compiler() leaves it.
void exhaust_memory() {
  static char* volatile hoard = nullptr;  // Seen, so that it is not left out.
  hoard = new char[std::size_t{8} << 30];
}

/// True the first time that this file is named.
bool is_first(const std::string& mark) {
  const bool is_there = std::filesystem::exists(mark);
  std::ofstream{mark};
  return !is_there;
}

CompiledProgram compile(const CompileTask& task) {
  const std::string& source = task.files.front().second;
  if (source == "crash" || (source == "crash once" && is_first(task.files.at(1).second))) {
    crash();
  }
  if (source == "hang") {
    for (;;) {
      pause();
    }
  }
  if (source == "hoard") {
    exhaust_memory();
  }
  if (source == "fail") {
    throw Error(ErrorCode::compile_failed, "line 1: no such thing\nline 2: either");
  }
  CompiledProgram program{.cubin = std::vector<std::byte>(3, std::byte{7}), .log = {}};
  program.log = source + " sm_" + std::to_string(task.sm_arch) + task.arch_suffix + " by " +
                std::to_string(getpid());
  for (const std::string& option : task.options) {
    program.log += " " + option;
  }
  for (const std::string& kernel : task.kernels) {
    program.lowered_names.push_back("_Z" + kernel);
  }
  if (task.limit_s) {
    program.log += " within " + std::to_string(*task.limit_s);
  }
  return program;
}

}  // namespace
}  // namespace swr

int main() {
#ifdef __SANITIZE_ADDRESS__
  constexpr long long kMemoryBytes = 1LL << 62;  // A sanitizer takes terabytes of addresses.
#else
  constexpr long long kMemoryBytes = 4LL << 30;
#endif
  swr::serve_compiler(STDIN_FILENO, kMemoryBytes, swr::compile);
  return 0;
}
