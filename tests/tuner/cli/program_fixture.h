// SPDX-License-Identifier: MIT
// A test that runs the program in a directory of its own, with the cache that all such tests share.
#pragma once

#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tests/tuner/cli/program.h"

#include <nlohmann/json.hpp>

namespace swr::test {

class ProgramFixture : public ::testing::Test {
 protected:
  ProgramResult result_of(const Arguments& arguments) const {
    return Program(arguments, environment_, dir_).finish();
  }
  /// What it prints where it succeeds.
  std::string run(const Arguments& arguments) const {
    const ProgramResult result = result_of(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  nlohmann::json json_of(const Arguments& arguments) const {
    return nlohmann::json::parse(run(arguments + "--json"));
  }
  /// Runs what must fail: one line on stderr, nothing on stdout.
  std::string error_of(const Arguments& arguments, int exit_code) const {
    const ProgramResult result = result_of(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, StartsWith("swr-tune: error: "));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  TempDirectory directory_;
  const std::filesystem::path dir_ = directory_.path();
  std::vector<std::string> environment_{"HOME=" + dir_.string(),
                                        "XDG_STATE_HOME=" + kept_folder("state").string(),
                                        "SWR_CACHE_DIR=" + kept_kernels().string()};
};

}  // namespace swr::test
