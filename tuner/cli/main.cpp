// SPDX-License-Identifier: MIT
// The swr-tune program.
#include "tuner/cli/commands.h"

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  // A limit on the size of files is then an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return swr::cli::run(arguments, swr::cli::read_environment(), std::cout, std::cerr);
}
