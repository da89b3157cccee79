// SPDX-License-Identifier: MIT
#include "tuner/cli/environment.h"

#include "tests/support/test.h"

namespace swr::cli {
namespace {

TEST(Environment, SwrVariablesWinOverXdgAndXdgOverHome) {
  Environment environment;
  environment.home = "/users/ada";
  EXPECT_EQ(default_database(environment), "/users/ada/.local/share/swr/tuned.db");
  EXPECT_EQ(default_cache_dir(environment), "/users/ada/.cache/swr");
  environment.xdg_data_home = "/data";
  environment.xdg_cache_home = "/cache";
  EXPECT_EQ(default_database(environment), "/data/swr/tuned.db");
  EXPECT_EQ(default_cache_dir(environment), "/cache/swr");
  environment.database = "/elsewhere/my.db";
  environment.cache_dir = "/elsewhere/cubins";
  EXPECT_EQ(default_database(environment), "/elsewhere/my.db");
  EXPECT_EQ(default_cache_dir(environment), "/elsewhere/cubins");
}

TEST(Environment, AsksForAPlaceWhenThereIsNoHome) {
  EXPECT_THROW(default_database({}), Error);
  EXPECT_THROW(default_cache_dir({}), Error);
}

TEST(Environment, ColumnsWinsOverWhatTheTerminalSaysWhereItMakesSense) {
  EXPECT_EQ(terminal_width(std::nullopt, 132), 132U);
  EXPECT_EQ(terminal_width("100", 132), 100U);
  for (const char* senseless : {"", "0", "-5", "wide", "80x24", "7"}) {
    EXPECT_EQ(terminal_width(senseless, 132), 132U) << senseless;
  }
  EXPECT_EQ(terminal_width(std::nullopt, 0), 80U);
}

TEST(Environment, OutputThatIsNoTerminalHasNoWidth) {
  setenv("COLUMNS", "100", 1);
  const Environment environment = read_environment();
  unsetenv("COLUMNS");
  EXPECT_EQ(environment.stdout_width, environment.stdout_is_terminal ? 100U : 0U);
  EXPECT_EQ(environment.stderr_width, environment.stderr_is_terminal ? 100U : 0U);
}

}  // namespace
}  // namespace swr::cli
