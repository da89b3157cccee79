// SPDX-License-Identifier: MIT
#include "report/other_formats.h"
#include "tests/support/fake_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace swr {
namespace {

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, ',');) {
    all.push_back(field);
  }
  return all;
}

TEST(CutlassCsv, HasTheProfilersColumnsAndRates) {
  RecordedSpace space{.problem = AttentionProblem{.seq_q = 1024, .seq_kv = 1024, .head_dim = 64},
                      .device = test::fictional_device(),
                      .origin = {},
                      .results = {}};
  VariantResult result{.variant = AttentionVariant{}};
  result.outcome = Measurement{.samples_us = {1000.0}, .median_us = 1000.0};
  space.results.push_back(result);
  result.state = ResultState::correctness;
  space.results.push_back(result);
  std::ostringstream out;
  write_cutlass_csv(out, space);
  std::istringstream text(out.str());
  std::string header;
  std::string good;
  std::string wrong;
  ASSERT_TRUE(std::getline(text, header) && std::getline(text, good) && std::getline(text, wrong));
  const auto names = fields(header);
  const auto values = fields(good);
  ASSERT_EQ(values.size(), names.size());
  const auto value = [&](const std::string& name) {
    const auto at = std::ranges::find(names, name) - names.begin();
    return values.at(static_cast<std::size_t>(at));
  };
  EXPECT_EQ(value("Provider"), "swr");
  EXPECT_EQ(value("Disposition"), "passed");
  EXPECT_EQ(value("tile_m"), "64");
  EXPECT_EQ(value("Runtime"), "1");
  // Q, K, V and O of 1024 x 64 halves: 524288 bytes in a millisecond; 4 S S D operations.
  EXPECT_NEAR(std::stod(value("GB/s")), 0.524288, 1e-6);
  EXPECT_NEAR(std::stod(value("GFLOPs")), 268.435, 1e-3);
  EXPECT_NE(wrong.find(",incorrect,correctness,"), std::string::npos);
  EXPECT_TRUE(wrong.ends_with(",,,"));
}

}  // namespace
}  // namespace swr
