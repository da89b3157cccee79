// SPDX-License-Identifier: MIT
// What the evaluator says about good, wrong, stray and faulting kernels, and whether its times and
// counters make sense.
#include "tuner/measure/measuring_evaluator.h"

#include "tests/gpu/gpu_test.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace swr {
namespace {

using ::testing::HasSubstr;

MeasureOptions without_counters() {
  MeasureOptions options;
  options.counters = false;
  return options;
}

AttentionProblem square(int heads, int seq, int head_dim) {
  return {.heads_q = heads, .heads_kv = heads, .seq_q = seq, .seq_kv = seq, .head_dim = head_dim};
}

class MeasuringEvaluatorTest : public GpuTest {
 protected:
  static VariantResult evaluate(MeasuringEvaluator& evaluator, const AttentionProblem& problem,
                                const Variant& variant) {
    return evaluator.evaluate(problem, variant, bench().compile(problem, variant));
  }
};

TEST_F(MeasuringEvaluatorTest, FillsInEveryFieldOfAGoodVariant) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(4, 1024, 64);
  const Variant variant;
  const VariantResult result = evaluate(evaluator, problem, variant);
  ASSERT_EQ(result.state, ResultState::ok) << result.detail;
  EXPECT_EQ(result.variant, variant);
  EXPECT_EQ(result.smem_bytes, smem_bytes(problem, variant));
  EXPECT_GE(result.ctas_per_sm, 1);
  EXPECT_EQ(result.cubin_digest.size(), 64U);
  EXPECT_GT(result.resources.registers_per_thread, 0);
  const Measurement& measurement = *result.measurement();
  EXPECT_EQ(measurement.samples_us.size(), 20U);
  EXPECT_GT(measurement.relative_error, 0.0);
  EXPECT_LT(measurement.relative_error, 2e-3);
  EXPECT_FALSE(measurement.counters.has_value());
  EXPECT_NE(measurement.counters_missing_because, "");
}

TEST_F(MeasuringEvaluatorTest, TimesGrowWithTheWork) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const auto median_us = [&](int seq) {
    const VariantResult result = evaluate(evaluator, square(16, seq, 64), Variant{});
    EXPECT_EQ(result.state, ResultState::ok) << result.detail;
    EXPECT_LE(result.measurement()->median_us, result.measurement()->p95_us);
    return result.measurement()->median_us;
  };
  const double short_us = median_us(4096);
  const double long_us = median_us(8192);
  // Four times the work; edges and clocks leave room around it.
  EXPECT_GT(long_us, 2.5 * short_us);
  EXPECT_LT(long_us, 6.0 * short_us);
  // No GPU reaches 10 PFLOP/s, so a shorter time would mean that events missed the work.
  EXPECT_GT(short_us, flop_count(square(16, 4096, 64)) / 10e15 * 1e6);
}

TEST_F(MeasuringEvaluatorTest, RepeatsItselfOnTheSameVariant) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(16, 4096, 64);
  const double first_us = evaluate(evaluator, problem, Variant{}).time_us();
  const double second_us = evaluate(evaluator, problem, Variant{}).time_us();
  EXPECT_NEAR(second_us / first_us, 1.0, 0.2);
}

TEST_F(MeasuringEvaluatorTest, RefusesADeviceThatDoesNotExist) {
  MeasureOptions options;
  options.device_ordinal = 1000;
  try {
    const MeasuringEvaluator evaluator(bench().generator, options);
    FAIL() << "device 1000 exists";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("GPU 1000"));
  }
}

TEST_F(MeasuringEvaluatorTest, ReportsACubinForAnotherChipAsALaunchFailure) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const AttentionProblem problem = square(1, 128, 64);
  const int other_arch = bench().device.sm_arch == 121 ? 90 : 121;
  const CompiledKernel foreign = bench().generator.compile(problem, Variant{}, other_arch);
  const VariantResult result = evaluator.evaluate(problem, Variant{}, foreign);
  EXPECT_EQ(result.state, ResultState::launch);
  EXPECT_THAT(result.detail, HasSubstr("CUDA_ERROR"));
}

/// Replaces the portable kernel by one with this body, whose `params` are the launch's.
class ReplacedKernel : public MeasuringEvaluatorTest {
 protected:
  VariantResult evaluate_body(MeasuringEvaluator& evaluator, const AttentionProblem& problem,
                              const std::string& body) {
    GeneratorOptions options;
    options.template_overlay = overlay(body);
    const Generator generator(options);
    return evaluator.evaluate(problem, Variant{},
                              generator.compile(problem, Variant{}, evaluator.device().sm_arch));
  }

  void TearDown() override { std::filesystem::remove_all(directory()); }

 private:
  static std::filesystem::path directory() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::filesystem::path(::testing::TempDir()) / (std::string("swr_") + test->name());
  }

  static std::filesystem::path overlay(const std::string& body) {
    const std::filesystem::path folder = directory() / "attention" / "portable";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "attention.cu")
        << "#include \"selected_attention_config.h\"\n"
           "#include <swr/attention_params.h>\n"
           "extern \"C\" __global__ void swr_attention(\n"
           "    const __grid_constant__ swr::AttentionParams params) {\n"
        << body << "}\n";
    return directory();
  }
};

/// The right O when there is one key: its row of V. Leaves lse alone.
constexpr const char* kCopyTheOnlyValue = R"(
  for (int row = blockIdx.x; row < params.seq_q; row += gridDim.x) {
    for (int column = threadIdx.x; column < swr::kConfig.head_dim; column += blockDim.x) {
      static_cast<unsigned short*>(params.o)[row * params.o_strides.seq + column] =
          static_cast<const unsigned short*>(params.v)[column];
    }
  }
)";

TEST_F(ReplacedKernel, ThatWritesNothingIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const VariantResult result = evaluate_body(evaluator, square(1, 64, 64), "");
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("relative L2 error inf"));
}

TEST_F(ReplacedKernel, ThatLeavesOutLogSumExpIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  AttentionProblem problem = square(1, 64, 64);
  problem.seq_kv = 1;
  const VariantResult result = evaluate_body(evaluator, problem, kCopyTheOnlyValue);
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("log-sum-exp"));
  EXPECT_LT(result.measurement()->relative_error, 1e-6);
}

TEST_F(ReplacedKernel, ThatWritesPastItsOutputIsIncorrect) {
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  AttentionProblem problem = square(1, 64, 64);
  problem.seq_kv = 1;
  const std::string stray = R"(
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    static_cast<unsigned short*>(params.o)[params.o_strides.batch] = 0;
  }
)";
  const VariantResult result = evaluate_body(evaluator, problem, kCopyTheOnlyValue + stray);
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_THAT(result.detail, HasSubstr("wrote 1 16-bit words outside"));
}

/// Of its own name, so that a run under a sanitizer can leave it out.
class FaultingKernel : public ReplacedKernel {};

TEST_F(FaultingKernel, IsARuntimeFailureAndTheNextVariantRuns) {
  const AttentionProblem problem = square(1, 128, 64);
  const CompiledKernel good = bench().compile(problem, Variant{});
  const Generator generator{GeneratorOptions{}};
  // The fault destroys the context for everybody in it.
  release_bench();
  MeasuringEvaluator evaluator(generator, without_counters());
  const VariantResult fault =
      evaluate_body(evaluator, problem, "  *reinterpret_cast<volatile int*>(16) = 1;\n");
  EXPECT_EQ(fault.state, ResultState::runtime);
  EXPECT_THAT(fault.detail, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const VariantResult next = evaluator.evaluate(problem, Variant{}, good);
  EXPECT_EQ(next.state, ResultState::ok) << next.detail;
}

}  // namespace
}  // namespace swr
