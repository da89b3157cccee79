// SPDX-License-Identifier: MIT
#include "tuner/cli/environment.h"

#include <swr/error.h>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace swr::cli
