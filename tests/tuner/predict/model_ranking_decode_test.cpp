// SPDX-License-Identifier: MIT
// What the model search tries first when one token attends to long K and V.
#include "model/profile/gpu_profile.h"
#include "tuner/predict/model_ranking.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/generator.h>

namespace swr {
namespace {

/// The portable space of the H200, fastest prediction first.
std::vector<AttentionVariant> ranked(const AttentionProblem& problem) {
  const DeviceInfo device = load_profile("h200").device;
  SpaceOptions options;
  options.restrictions["family"] = {AxisValue("portable")};
  const std::vector<Variant> variants = enumerate_space(problem, device, options).variants;
  const std::vector<double> times_us = model_predictor(problem, device, 2)(variants)->all_us();
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return times_us[i]; });
  std::vector<AttentionVariant> sorted;
  for (const std::size_t i : order) {
    sorted.push_back(variants[i].as<AttentionVariant>());
  }
  return sorted;
}

TEST(DecodeRanking, SplitAndPackedVariantsComeFirst) {
  for (const int batch : {1, 8}) {
    const std::vector<AttentionVariant> first = ranked({.batch = batch,
                                                        .heads_q = 64,
                                                        .heads_kv = 8,
                                                        .seq_q = 1,
                                                        .seq_kv = 32768,
                                                        .head_dim = 128});
    ASSERT_GE(first.size(), 30U);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_TRUE(first[i].pack_gqa) << to_key(first[i]);
      EXPECT_GT(first[i].kv_splits, 1) << to_key(first[i]);
    }
    EXPECT_EQ(first.back().kv_splits, 1) << to_key(first.back());
  }
}

}  // namespace
}  // namespace swr
