// SPDX-License-Identifier: MIT
// study on a database that holds its points, so that nothing is compiled.
#include "tuner/study/study.h"

#include "tests/support/temp_directory.h"
#include "tuner/cli/commands.h"
#include "tuner/model/gpu_profile.h"
#include <swr/store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Stores a prediction for every point of a study; returns their number.
std::size_t store_points(const std::filesystem::path& database, const Study& study,
                         const DeviceInfo& device) {
  Store store(database, Store::Mode::read_write);
  const long long run_id = store.begin_run({.command = "test", .swr_version = "0"});
  std::set<std::pair<AttentionProblem, AttentionVariant>> stored;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyPoint& point : experiment.points) {
      if (stored.emplace(point.problem, point.variant).second) {
        VariantResult result;
        result.variant = point.variant;
        result.outcome = Prediction{.time_us = 1000.0,
                                    .read_sectors = 1'000'000,
                                    .compulsory_misses = compulsory_sectors(point.problem),
                                    .excess_misses = 12'345};
        store.record(run_id, point.problem, device, result);
      }
    }
  }
  return stored.size();
}

TEST(StudyCommand, TunesNothingTwiceAndWritesTablesAndCsv) {
  const TempDirectory directory;
  const DeviceInfo device = load_profile("gb10").device;
  const auto database = directory / "tuned.db";
  const std::size_t points = store_points(database, make_study("sawtooth", device), device);
  Environment environment;
  environment.cache_dir = (directory / "cache").string();
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> arguments{
      "study", "sawtooth",        "--gpu", "gb10",
      "--db",  database.string(), "--out", (directory / "study").string()};
  ASSERT_EQ(run(arguments, environment, out, err), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("sawtooth: 0 points predicted, " + std::to_string(points) +
                                   " known from an earlier run"));
  std::ifstream tables(directory / "study" / "sawtooth.md");
  const std::string text{std::istreambuf_iterator<char>(tables), {}};
  EXPECT_THAT(text, StartsWith("# Sawtooth Wavefront Reordering, predicted\n\n**Every number here "
                               "is predicted**"));
  EXPECT_THAT(text, HasSubstr("swr-tune study sawtooth --gpu gb10"));
  EXPECT_THAT(text, HasSubstr("12,345"));
  std::ifstream csv(directory / "study" / "sawtooth.csv");
  std::string head;
  std::getline(csv, head);
  EXPECT_THAT(head, StartsWith("study,experiment,series,x,provenance,"));
}

TEST(StudyCommand, UnknownStudiesAreABadCommandLine) {
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> arguments{"study", "spiral", "--gpu", "gb10", "--out", "x"};
  EXPECT_EQ(run(arguments, {}, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("sawtooth"));
}

}  // namespace
}  // namespace swr::cli
