// SPDX-License-Identifier: MIT
// The swr-tune program.
#include "tuner/cli/commands.h"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <iostream>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

/// The next file that is opened would be taken for a standard stream that is closed.
void open_standard_streams() {
  int file = open("/dev/null", O_RDWR);
  while (file >= 0 && file <= STDERR_FILENO) {
    file = open("/dev/null", O_RDWR);
  }
  close(file);
}

std::atomic<char*> reserve = nullptr;

/// The first time that memory runs out, destructors get some: those of the JSON library take
/// memory, and what a destructor throws ends the process.
[[noreturn]] void out_of_memory() {
  delete[] reserve.exchange(nullptr);
  throw std::bad_alloc();
}

void keep_memory_for_destructors() {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  reserve = new (std::nothrow) char[kBytes];
  std::set_new_handler(out_of_memory);
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory_for_destructors();
  open_standard_streams();
  // A limit on the size of files is then an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return swr::cli::run(arguments, swr::cli::read_environment(), std::cout, std::cerr);
}
