// SPDX-License-Identifier: MIT
// The GPU reference against float64 on the CPU, and the random inputs both read.
#include "operations/attention/verifier.h"
#include "tests/gpu/download.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attention.h"
#include "tests/support/attention_oracle.h"
#include <swr/attention_problem.h>

namespace swr {
namespace {

struct ReferenceCase {
  std::string name;
  AttentionProblem problem;
  MemoryOrder order = MemoryOrder::bhsd;
};

/// How GoogleTest shows the parameter.
[[maybe_unused]] void PrintTo(const ReferenceCase& given, std::ostream* stream) {
  *stream << to_string(given.problem);
}

AttentionProblem shape(int seq_q, int seq_kv, int head_dim, bool causal) {
  return {.seq_q = seq_q, .seq_kv = seq_kv, .head_dim = head_dim, .causal = causal};
}

AttentionProblem with_heads(AttentionProblem problem, int batch, int heads_q, int heads_kv) {
  problem.batch = batch;
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  return problem;
}

AttentionProblem with_type(AttentionProblem problem, DType dtype, int alignment_bytes) {
  problem.dtype = dtype;
  problem.alignment_bytes = alignment_bytes;
  return problem;
}

std::vector<ReferenceCase> reference_cases() {
  return {
      {"one_row_one_key", shape(1, 1, 16, false)},
      {"ragged", shape(65, 129, 64, false)},
      {"ragged_bf16", with_type(shape(33, 31, 80, false), DType::bf16, 16)},
      {"causal_square", shape(100, 100, 64, true)},
      {"causal_more_keys", shape(17, 150, 48, true)},
      {"causal_rows_that_see_nothing", shape(150, 17, 48, true)},
      {"causal_decode", shape(1, 200, 128, true)},
      {"last_row_and_key_of_a_tile", shape(128, 128, 128, true)},
      {"first_row_and_key_of_a_tile", shape(129, 129, 192, true)},
      {"several_tiles", with_type(shape(300, 700, 96, true), DType::bf16, 16)},
      {"tiles_that_see_nothing", shape(400, 17, 64, true)},
      {"widest_head", with_type(shape(40, 70, 256, true), DType::bf16, 16)},
      {"grouped_heads", with_heads(shape(40, 50, 32, true), 2, 6, 2)},
      {"one_kv_head", with_heads(shape(40, 50, 32, false), 3, 4, 1)},
      {"sequence_major", with_heads(shape(50, 60, 64, true), 2, 4, 2), MemoryOrder::bshd},
      {"unaligned", with_type(with_heads(shape(50, 60, 96, false), 2, 2, 2), DType::fp16, 2)},
      {"unaligned_sequence_major",
       with_type(with_heads(shape(50, 60, 160, true), 2, 4, 2), DType::bf16, 4), MemoryOrder::bshd},
  };
}

class Reference : public GpuTest, public ::testing::WithParamInterface<ReferenceCase> {};

TEST_P(Reference, MatchesFloat64OnTheCpu) {
  const ReferenceCase& given = GetParam();
  const ProblemBuffers buffers(given.problem, bench().kernels, bench().stream, 7, given.order);
  const Verifier verifier(bench().kernels, buffers, bench().stream);
  const DType dtype = attention(given.problem).dtype;
  const OracleOutputs expected = attention_oracle(
      given.problem,
      {download(buffers.q(), dtype), download(buffers.k(), dtype), download(buffers.v(), dtype)});
  const std::vector<double> output = download_fp32(verifier.reference_output());
  ASSERT_EQ(output.size(), expected.o.size());
  EXPECT_LT(relative_error(output, expected.o), 1e-5);
  const std::vector<double> lse = download_fp32(verifier.reference_lse());
  ASSERT_EQ(lse.size(), expected.lse.size());
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (std::isinf(expected.lse[row])) {
      EXPECT_EQ(lse[row], expected.lse[row]) << "row " << row;
    } else {
      EXPECT_NEAR(lse[row], expected.lse[row], 1e-4) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reference, ::testing::ValuesIn(reference_cases()),
                         [](const auto& given) { return given.param.name; });

class RandomInputs : public GpuTest {};

TEST_F(RandomInputs, AreNormallyDistributed) {
  const AttentionProblem problem = shape(4096, 16, 64, false);
  const ProblemBuffers buffers(problem, bench().kernels, bench().stream, 3);
  bench().stream.synchronize();
  const std::vector<double> values = download(buffers.q(), DType::fp16);
  double sum = 0.0;
  double squares = 0.0;
  double fourth_powers = 0.0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    fourth_powers += value * value * value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.02);
  EXPECT_NEAR(fourth_powers / count, 3.0, 0.1);
}

TEST_F(RandomInputs, DependOnTheSeedAndNotOnStrides) {
  AttentionProblem problem = with_heads(shape(20, 30, 48, false), 2, 4, 2);
  const ProblemBuffers dense(problem, bench().kernels, bench().stream, 3);
  const ProblemBuffers other_seed(problem, bench().kernels, bench().stream, 4);
  problem.alignment_bytes = 2;
  const ProblemBuffers strided(problem, bench().kernels, bench().stream, 3, MemoryOrder::bshd);
  bench().stream.synchronize();
  const std::vector<double> values = download(dense.k(), DType::fp16);
  EXPECT_EQ(values, download(strided.k(), DType::fp16));
  EXPECT_NE(values, download(other_seed.k(), DType::fp16));
  EXPECT_NE(values, download(dense.v(), DType::fp16));
}

}  // namespace
}  // namespace swr
