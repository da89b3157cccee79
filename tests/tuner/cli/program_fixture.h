// SPDX-License-Identifier: MIT
// A test that runs the program in a directory of its own.
#pragma once

#include "tests/tuner/cli/program.h"

#include "tests/support/test.h"

namespace swr::test {

class ProgramFixture : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  ProgramResult result_of(Arguments arguments, const Arguments& more = {}) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(arguments, {"HOME=" + directory_.path().string()}, directory_.path()).finish();
  }
  /// What it prints where it succeeds.
  std::string run(const Arguments& arguments, const Arguments& more = {}) {
    const auto result = result_of(arguments, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  TempDirectory directory_;
};

}  // namespace swr::test
