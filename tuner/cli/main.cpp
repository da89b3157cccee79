// SPDX-License-Identifier: MIT
// The swr-tune program.
#include "tuner/cli/commands.h"

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return swr::cli::run(arguments, swr::cli::read_environment(), std::cout, std::cerr);
}
