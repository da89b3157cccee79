// SPDX-License-Identifier: MIT
// The swr-tune program.
#include "tuner/cli/commands.h"

#include <csignal>
#include <fcntl.h>
#include <iostream>
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

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // A limit on the size of files is then an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return swr::cli::run(arguments, swr::cli::read_environment(), std::cout, std::cerr);
}
