// SPDX-License-Identifier: MIT
// Predictions for an H100, whose rates stand in a profile and whose kernels no cost was fitted to,
// beside what swr's own kernels took on one (experiments/published_timings).
#include "core/recorded_space.h"
#include "experiments/l2_model/accuracy.h"
#include "tests/support/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace swr {
namespace {

using ::testing::HasSubstr;

/// What is shorter is judged apart: launch and DRAM begin to matter.
constexpr double kLongUs = 200.0;

/// Logarithms of predicted over measured time.
struct Deviations {
  std::vector<double> of_fastest;  ///< One a space: of the variant that was measured fastest.
  std::vector<double> of_long;     ///< Those of them that take kLongUs or more.
  std::vector<double> of_all;
};

Deviations deviations(const std::string& file) {
  const GpuProfile h100 = load_profile("h100");
  Deviations found;
  for (const RecordedSpace& space : read_recorded_spaces(file)) {
    EXPECT_TRUE(same_device(space.device, h100.device)) << to_string(space.problem);
    const std::vector<Comparison> rows = compare(space, h100);
    for (const Comparison& row : rows) {
      found.of_all.push_back(std::log(row.predicted_us / row.measured_us));
    }
    const auto fastest = std::ranges::min_element(rows, {}, &Comparison::measured_us);
    found.of_fastest.push_back(std::log(fastest->predicted_us / fastest->measured_us));
    if (fastest->measured_us >= kLongUs) {
      found.of_long.push_back(found.of_fastest.back());
    }
  }
  return found;
}

/// A row of the table "Our own kernels on an H100".
std::string row(const char* name, const std::vector<double>& logarithms) {
  const double count = static_cast<double>(logarithms.size());
  double sum = 0.0;
  double farthest = 0.0;
  int within_12_percent = 0;
  for (const double logarithm : logarithms) {
    sum += logarithm;
    const double deviation = std::exp(logarithm) - 1.0;
    within_12_percent += std::abs(deviation) <= 0.12;
    farthest = std::abs(deviation) > std::abs(farthest) ? deviation : farthest;
  }
  double squares = 0.0;
  for (const double logarithm : logarithms) {
    squares += (logarithm - sum / count) * (logarithm - sum / count);
  }
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %zu | %+.1f %% | %.1f %% | %.0f %% | %+.0f %% |", name,
                logarithms.size(), 100.0 * (std::exp(sum / count) - 1.0),
                100.0 * std::sqrt(squares / count), 100.0 * within_12_percent / count,
                100.0 * farthest);
  return text;
}

std::string published_rows() {
  std::ifstream file(SWR_PUBLISHED_TIMINGS_DOC);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PredictionsForAnH100, OfPortableKernelsAreAsPublished) {
  const Deviations found = deviations(SWR_H100_PORTABLE);
  EXPECT_THAT(published_rows(),
              HasSubstr(row("portable, fastest of each shape", found.of_fastest)));
  EXPECT_THAT(published_rows(),
              HasSubstr(row("portable, those of 200 us and more", found.of_long)));
  EXPECT_THAT(published_rows(), HasSubstr(row("portable, all measured", found.of_all)));
}

TEST(PredictionsForAnH100, OfTheHopperFamilyAreAsPublished) {
  const Deviations found = deviations(SWR_H100_HOPPER);
  EXPECT_THAT(published_rows(), HasSubstr(row("hopper, fastest of each shape", found.of_fastest)));
  EXPECT_THAT(published_rows(), HasSubstr(row("hopper, all measured", found.of_all)));
  double squares = 0.0;
  for (const double logarithm : found.of_all) {
    squares += logarithm * logarithm;
  }
  EXPECT_NEAR(load_profile("h100").prediction_error("hopper"),
              std::sqrt(squares / static_cast<double>(found.of_all.size())), 0.005);
}

}  // namespace
}  // namespace swr
