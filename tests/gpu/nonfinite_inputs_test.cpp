// SPDX-License-Identifier: MIT
// NaN and infinities in Q, K and V have the effect that PyTorch's safe softmax gives them, and no
// other.
#include "operations/attention/config.h"
#include "operations/attention/kernel.h"
#include "operations/attention/kv_split_memory.h"
#include "operations/attention/verifier.h"
#include "tests/gpu/download.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attention_oracle.h"
#include "tests/support/float16.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

struct NonfiniteCase {
  std::string name;
  DType dtype;
  bool causal;
  AttentionVariant variant;
};

/// How GoogleTest shows the parameter.
[[maybe_unused]] void PrintTo(const NonfiniteCase& given, std::ostream* stream) {
  *stream << to_key(given.variant);
}

std::vector<NonfiniteCase> cases() {
  std::vector<AttentionVariant> variants{
      {.tile_m = 64, .tile_n = 32, .warps = 4, .stages = 2},
      {.tile_m = 64, .tile_n = 32, .warps = 4, .stages = 2, .kv_splits = 4}};
  for (const Mainloop mainloop :
       {Mainloop::plain, Mainloop::mutex, Mainloop::overlap, Mainloop::overlap_ordered}) {
    for (const int eighths : {0, 4}) {
      variants.push_back({.family = Family::hopper,
                          .tile_m = 128,
                          .tile_n = 64,
                          .warps = 8,
                          .stages = 2,
                          .mainloop = mainloop,
                          .exp2_fma_eighths = eighths});
    }
  }
  std::vector<NonfiniteCase> cases;
  for (const AttentionVariant& variant : variants) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      for (const bool causal : {false, true}) {
        std::string name(variant.family == Family::hopper ? to_string(variant.mainloop)
                                                          : to_string(variant.family));
        name += variant.kv_splits > 1 ? "_splits_" + std::to_string(variant.kv_splits) : "";
        name += "_fma_" + std::to_string(variant.exp2_fma_eighths);
        name += "_" + std::string(to_string(dtype)) + (causal ? "_causal" : "");
        cases.push_back({std::move(name), dtype, causal, variant});
      }
    }
  }
  return cases;
}

/// Overwrites one element of a row, of all rows where `row` is negative.
void overwrite(const GuardedTensor& tensor, int row, int column, std::uint16_t bits) {
  std::vector<std::uint16_t> words(tensor.memory().size_bytes() / 2);
  tensor.memory().download(std::as_writable_bytes(std::span(words)));
  const auto& strides = tensor.layout().strides;
  for (int i = 0; i < tensor.shape().seq; ++i) {
    if (row < 0 || i == row) {
      const auto element =
          static_cast<long long>(tensor.offset_bytes() / 2) + i * strides.seq + column;
      words[static_cast<std::size_t>(element)] = bits;
    }
  }
  tensor.memory().upload(std::as_bytes(std::span(words)));
}

class NonfiniteInputs : public GpuTest, public ::testing::WithParamInterface<NonfiniteCase> {
 protected:
  NonfiniteInputs() : problem_(problem_of(GetParam())) {}

  /// One head, three key tiles, the last one partly filled.
  static AttentionProblem problem_of(const NonfiniteCase& given) {
    return {.seq_q = 150, .seq_kv = 170, .dtype = given.dtype, .causal = given.causal};
  }

  ProblemBuffers random_inputs() {
    ProblemBuffers buffers(problem_, bench().kernels, bench().stream, 23);
    bench().stream.synchronize();
    return buffers;
  }

  void expect_match(const ProblemBuffers& buffers) {
    const AttentionVariant& variant = GetParam().variant;
    const CompiledKernel& compiled = bench().compile(problem_, variant);
    const Occupancy resident = occupancy(compiled.resources, problem_, variant, bench().device);
    const AttentionLaunchPlan plan =
        launch_plan(problem_, variant, bench().device.sm_count, resident.ctas_per_sm);
    const AttentionKernel kernel(compiled, plan);
    const KvSplitMemory splits(plan, buffers.params(true), bench().stream);
    kernel.launch(splits.of_launch(buffers.params(true)), bench().stream.handle());
    bench().stream.synchronize();
    const DType dtype = problem_.dtype;
    const OracleOutputs expected = attention_oracle(
        problem_,
        {download(buffers.q(), dtype), download(buffers.k(), dtype), download(buffers.v(), dtype)});
    expect_near(download(buffers.o(), dtype), expected.o);
  }

 private:
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    int wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const bool alike = std::isnan(expected[i])   ? std::isnan(actual[i])
                         : std::isinf(expected[i]) ? actual[i] == expected[i]
                                                   : std::abs(actual[i] - expected[i]) < 0.03;
      if (!alike && ++wrong <= 3) {
        ADD_FAILURE() << "row " << i / 64 << ", column " << i % 64 << ": " << actual[i]
                      << " instead of " << expected[i];
      }
    }
    EXPECT_EQ(wrong, 0);
  }

 protected:
  AttentionProblem problem_;
  Special special_ = special(problem_.dtype);
};

TEST_P(NonfiniteInputs, NaNInQReachesItsRow) {
  for (const int row : {0, 70, 149}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), row, 9, special_.nan);
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, NaNInKReachesTheRowsThatSeeIt) {
  for (const int key : {0, 100, 169}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.k(), key, 5, special_.nan);
    expect_match(buffers);
  }
}

/// Rows that do not see the key but share its tile multiply it by 0, as all rows do in PyTorch's
/// math path.
TEST_P(NonfiniteInputs, NaNAndInfinityInVReachTheirColumn) {
  if (GetParam().causal) {
    GTEST_SKIP() << "which rows multiply a hidden key by 0 depends on the tile";
  }
  for (const std::uint16_t bits : {special_.nan, special_.plus_infinity, special_.minus_infinity}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.v(), 100, 7, bits);
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, ScoresOfMinusInfinityCountAsHidden) {
  std::vector<int> first_tile;
  for (int key = 0; key < 64; ++key) {
    first_tile.push_back(key);
  }
  for (const std::vector<int>& keys : {std::vector{0}, {100}, {169}, first_tile, {-1}}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), -1, 3, special_.one);
    for (const int key : keys) {
      overwrite(buffers.k(), key, 3, special_.minus_infinity);
    }
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, AScoreOfPlusInfinityMakesItsRowNaN) {
  for (const int key : {0, 100, 169}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), -1, 3, special_.one);
    overwrite(buffers.k(), key, 3, special_.plus_infinity);
    expect_match(buffers);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, NonfiniteInputs, ::testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace swr
