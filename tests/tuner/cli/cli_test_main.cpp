// SPDX-License-Identifier: MIT
// The commands that these tests run start this program anew to compile, as swr-tune starts itself.
#include "tests/support/test.h"
#include "tuner/cli/commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == swr::cli::kCompileWorkerCommand) {
    return swr::cli::run(arguments, swr::cli::read_environment(), std::cout, std::cerr);
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
