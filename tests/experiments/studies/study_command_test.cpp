// SPDX-License-Identifier: MIT
// study on a database that holds its points, so that nothing is compiled.
#include "experiments/studies/study_command.h"

#include "experiments/studies/study.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/temp_directory.h"
#include <swr/attention_variant.h>
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
  std::set<std::pair<Problem, Variant>> stored;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyPoint& point : experiment.points) {
      if (stored.emplace(point.problem, point.variant).second) {
        VariantResult result{.variant = AttentionVariant{}};
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

/// The command on a database that holds every point.
class StudyCommand : public ::testing::Test {
 protected:
  /// Returns the exit code.
  int run_study(const std::string& study, const std::string& gpu,
                const std::vector<std::string>& more = {}) {
    const DeviceInfo device = load_profile(gpu).device;
    const auto database = directory_ / "tuned.db";
    points_ = store_points(database, make_study(study, device), device);
    Environment environment;
    environment.cache_dir = (directory_ / "cache").string();
    std::vector<std::string> arguments{
        study, "--gpu", gpu, "--db", database.string(), "--out", (directory_ / "study").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cli::run_study(arguments, environment, out_, err_);
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(directory_ / "study" / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDirectory directory_;
  std::size_t points_ = 0;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(StudyCommand, TunesNothingTwiceAndWritesTablesAndCsv) {
  ASSERT_EQ(run_study("sawtooth", "gb10"), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("sawtooth: 0 points predicted, " + std::to_string(points_) +
                                    " known from an earlier run"));
  const std::string tables = text_of("sawtooth.md");
  EXPECT_THAT(tables, StartsWith("# Sawtooth Wavefront Reordering, predicted\n\n**Every number "
                                 "here is predicted**"));
  EXPECT_THAT(tables, HasSubstr("swr-study sawtooth --gpu gb10"));
  EXPECT_THAT(tables, HasSubstr("12,345"));
  EXPECT_THAT(text_of("sawtooth.csv"), StartsWith("study,experiment,series,x,provenance,"));
}

TEST_F(StudyCommand, WritesTheStridesOfGemmBesideItsPeers) {
  const auto peers = directory_ / "peers.csv";
  std::ofstream(peers) << "m,n,k,stage,contestant,median_us,p95_us,tflops\n"
                          "8192,8192,8192,final,cublaslt 0,2000,2100,550\n";
  ASSERT_EQ(run_study("gemm-swizzle", "h200", {"--peers", peers.string()}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("gemm-swizzle: 0 points predicted, " + std::to_string(points_) +
                                    " known from an earlier run, 0 not legal"));
  EXPECT_THAT(text_of("gemm-swizzle.md"), StartsWith("# Block scheduling in GEMM, predicted\n"));
  // All strides take 1000 us.
  EXPECT_THAT(text_of("gemm-swizzle.md"), HasSubstr("| 549.8 | 2.000 | predicted |"));
  EXPECT_THAT(text_of("gemm-swizzle.csv"), HasSubstr("gemm-swizzle,k_order,portable sawtooth,"));
}

TEST_F(StudyCommand, PeersAreOfGemmAlone) {
  EXPECT_EQ(run_study("sawtooth", "gb10", {"--peers", "peers.csv"}), 2);
  EXPECT_THAT(err_.str(),
              HasSubstr("--peers belongs to studies that compare with a library, not to sawtooth"));
}

TEST(StudyCommandLine, UnknownStudiesAreABadCommandLine) {
  std::ostringstream out;
  std::ostringstream err;
  const std::vector<std::string> arguments{"spiral", "--gpu", "gb10", "--out", "x"};
  EXPECT_EQ(run_study(arguments, {}, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("sawtooth"));
}

}  // namespace
}  // namespace swr::cli
