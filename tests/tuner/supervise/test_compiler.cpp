// SPDX-License-Identifier: MIT
// A compiling process that misbehaves as the source says.
#include "tuner/supervise/supervised_compiler.h"
#include <swr/error.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace swr {
namespace {

[[noreturn]] void crash() {
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

/// Far more than the test leaves it, at a pace that ends long before the machine's memory does.
void use_memory() {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (int piece = 0; piece < 256; ++piece) {
    void* const memory =
        mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, kPiece);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// As NVRTC does on a machine of many processors.
void reserve_memory() {
  mmap(nullptr, std::size_t{64} << 30, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
    use_memory();
  }
  if (source == "reserve") {
    reserve_memory();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
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
  if (task.is_foreign) {
    program.log += " foreign";
  }
  if (task.limit_s) {
    program.log += " within " + std::to_string(*task.limit_s);
  }
  return program;
}

}  // namespace
}  // namespace swr

int main() {
  swr::serve_compiler(STDIN_FILENO, swr::compile);
  return 0;
}
