// SPDX-License-Identifier: MIT
// Attention over unequal sequences through the tuner's evaluator: variants drawn from its space are
// right on fresh data and timed, whatever the family of lengths, and a wrong mask is found.
#include "operations/attention_serving/serving_attention.h"
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"

#include <algorithm>
#include <random>
#include <vector>

namespace swr {
namespace {

class ServingTuning : public GpuTest {
 protected:
  static CompiledKernel compile(const ServingAttentionProblem& problem, const Variant& variant) {
    return bench().generator.compile(problem, variant, bench().device.sm_arch);
  }
  static MeasureOptions without_counters() {
    MeasureOptions options;
    options.counters = false;
    return options;
  }
};

const ServingAttentionProblem kDecode{.batch = 21,
                                      .heads_q = 8,
                                      .heads_kv = 2,
                                      .seq_q = 2,
                                      .seq_kv = 1500,
                                      .head_dim = 128,
                                      .head_dim_v = 128,
                                      .dtype = DType::bf16};

TEST_F(ServingTuning, DrawnVariantsAreRightForEveryFamilyOfLengths) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  std::mt19937 random(3);
  std::vector<ServingAttentionProblem> problems;
  for (int family = 0; family < 7; ++family) {
    ServingAttentionProblem problem = kDecode;
    problem.lengths = static_cast<LengthFamily>(family);
    problem.page_size = family % 2 == 0 ? 16 : 7 * (family / 2);
    problem.sinks = family % 3 == 0;
    problem.leftpad = family == 5;
    problems.push_back(problem);
    problem.seq_q = 300;
    problem.dtype = DType::fp16;
    problem.mask = family < 3 ? ServingMask::causal : ServingMask::window;
    problem.window = family < 3 ? 0 : 100 * family;
    problem.softcap = family % 3 == 1 ? Softcap::accurate : Softcap::none;
    problem.head_dim = family == 4 ? 192 : 128;
    problems.push_back(problem);
  }
  for (const ServingAttentionProblem& problem : problems) {
    std::vector<Variant> variants = enumerate_space(problem, bench().device, {}).variants;
    std::ranges::shuffle(variants, random);
    constexpr std::size_t kDrawn = 3;
    variants.resize(std::min(variants.size(), kDrawn));
    for (const Variant& variant : variants) {
      const VariantResult result = evaluator.evaluate(problem, variant, compile(problem, variant));
      EXPECT_EQ(result.state, ResultState::ok)
          << to_string(Problem(problem)) << " " << to_key(variant) << ": " << result.detail;
      EXPECT_GT(result.time_us(), 0.0);
    }
  }
}

TEST_F(ServingTuning, AKernelWithAnotherMaskIsWrong) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  ServingAttentionProblem full = kDecode;
  full.mask = ServingMask::full;
  const ServingAttentionVariant variant{.pack_gqa = true};
  const VariantResult result = evaluator.evaluate(kDecode, variant, compile(full, variant));
  EXPECT_EQ(result.state, ResultState::correctness) << result.detail;
}

}  // namespace
}  // namespace swr
