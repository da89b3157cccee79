// SPDX-License-Identifier: MIT
// The swr-study program.
#include "experiments/studies/study_command.h"

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return swr::cli::run_study(arguments, swr::cli::read_environment(), std::cout, std::cerr);
}
