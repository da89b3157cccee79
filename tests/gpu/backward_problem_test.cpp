// SPDX-License-Identifier: MIT
// Attention backward on random problems, with the memory of the emulation's harness: gradients are
// as near to fp64 on the host as rounding allows, nothing else is written, and deterministic
// kernels give the same bits every time. SWR_BACKWARD_KERNELS says how many kernels are drawn
// (default 6), each for 12 problems (or SWR_DRAWN_PROBLEMS); test i depends on i alone, so tests
// may be spread over processes.
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "tests/emulation/backward_memory.h"
#include "tests/gpu/device_arrays.h"
#include "tests/gpu/drawn_kernel.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_backward_problem.h>
#include <swr/attention_backward_variant.h>

namespace swr {
namespace {

using emulation::AttentionCase;
using emulation::BackwardMemory;

/// Calls of one compiled variant.
class BackwardKernel {
 public:
  BackwardKernel(GpuBench& bench, const AttentionBackwardProblem& kind, const DrawnKernel& drawn)
      : stream_(bench.stream),
        kernel_(drawn.compiled),
        plan_(plan_of(kind, drawn.variant.as<AttentionBackwardVariant>(), bench.device.sm_count,
                      drawn.ctas_per_sm)) {
    for (std::size_t entry = 0; entry < kernel_.handles().size(); ++entry) {
      kernel_.allow_dynamic_smem(smem_bytes_of(kind, drawn.variant.as<AttentionBackwardVariant>()),
                                 entry);
    }
  }

  /// The bits of the gradients that so many launches leave, one after another.
  std::vector<std::vector<std::uint16_t>> run(BackwardMemory& memory, int launches) const {
    const AttentionBackwardGeometry geometry = memory.prepare(plan_);
    const DeviceArrays arrays(memory);
    AttentionBackwardParams p = memory.params();
    arrays.translate(p.q, p.k, p.v, p.o, p.d_o, p.lse, p.d_lse, p.dq, p.dk, p.dv, p.row_stats,
                     p.dq_sums, p.turns, p.item_counter, p.dkv_parts);
    std::vector<std::vector<std::uint16_t>> bits;
    for (int i = 0; i < launches; ++i) {
      require_success(launch_attention_backward(
                          cuda_driver().launch_calls, backward_functions(kernel_.handles()), plan_,
                          geometry, p, overlap_where(kernel_.may_overlap()), stream_.handle()),
                      "cuLaunchKernelEx");
      stream_.synchronize();
      arrays.fetch(memory);
      bits.push_back(memory.bits());
    }
    return bits;
  }

 private:
  const Stream& stream_;
  Kernel kernel_;
  AttentionBackwardPlan plan_;
};

class BackwardProblems : public GpuTest, public ::testing::WithParamInterface<int> {
 protected:
  int from(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  AttentionBackwardProblem drawn_kind() {
    constexpr std::array<std::pair<int, int>, 8> kDims{
        {{64, 64}, {96, 96}, {128, 128}, {128, 128}, {192, 128}, {256, 256}, {112, 112}, {80, 48}}};
    const auto [head_dim, value_dim] = kDims[static_cast<std::size_t>(from(0, 7))];
    return {.batch = 2,
            .heads_q = 4,
            .heads_kv = 2,
            .seq_q = 500,
            .seq_kv = 700,
            .head_dim = head_dim,
            .head_dim_v = value_dim,
            .dtype = from(0, 1) == 0 ? DType::fp16 : DType::bf16,
            .causal = from(0, 1) == 0,
            .deterministic = from(0, 1) == 0,
            .alignment_bytes = from(0, 3) == 0 ? 4 : 16};
  }

  /// The first grow: one tile, several Q tiles, several K and V tiles, tails.
  AttentionCase drawn_case(const AttentionBackwardProblem& kind, int round) {
    constexpr std::array<std::pair<int, int>, 4> kPlain{
        {{64, 64}, {256, 128}, {256, 256}, {200, 200}}};
    AttentionCase problem{.heads_kv = from(1, 2),
                          .head_dim = kind.head_dim,
                          .value_dim = kind.head_dim_v,
                          .causal = kind.causal,
                          .scale = 1.0 / std::sqrt(static_cast<double>(kind.head_dim))};
    problem.batch = from(1, 2);
    problem.heads_q = problem.heads_kv * from(1, 3);
    problem.seq_q = from(1, 3) == 1 ? from(1, 40) : from(64, 400);
    problem.seq_kv = from(1, 2) == 1 ? problem.seq_q : from(1, 400);
    if (static_cast<std::size_t>(round) < kPlain.size()) {
      problem.batch = problem.heads_q = problem.heads_kv = 1;
      std::tie(problem.seq_q, problem.seq_kv) = kPlain[static_cast<std::size_t>(round)];
    }
    return problem;
  }

  void expect_rounding(BackwardMemory& memory, const AttentionCase& problem) {
    SCOPED_TRACE(::testing::Message()
                 << "batch " << problem.batch << " heads " << problem.heads_q << "/"
                 << problem.heads_kv << " lengths " << problem.seq_q << "/" << problem.seq_kv);
    EXPECT_EQ(memory.disturbed(), 0);
    const auto errors = memory.errors();
    for (std::size_t i = 0; i < errors.size(); ++i) {
      EXPECT_TRUE(errors[i].is_rounding(memory.unit()))
          << "gradient " << i << " of dQ, dK, dV: " << errors[i].all / memory.unit()
          << " units, and " << errors[i].row / memory.unit() << " in row " << errors[i].worst_row;
    }
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

class BackwardTurns : public GpuTest {};

TEST_P(BackwardProblems, GradientsAreRightToRounding) {
  const AttentionBackwardProblem kind = drawn_kind();
  const DrawnKernel drawn = drawn_kernel(bench(), kind, random_);
  SCOPED_TRACE(to_string(Problem(kind)) + " " + to_key(drawn.variant));
  const BackwardKernel kernel(bench(), kind, drawn);
  const int rounds = count_of("SWR_DRAWN_PROBLEMS", 12);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const AttentionCase problem = drawn_case(kind, round);
    BackwardMemory memory(
        problem, kind.dtype,
        from(0, 1) == 0 ? emulation::MemoryOrder::bhsd : emulation::MemoryOrder::bshd,
        kind.alignment_bytes, static_cast<unsigned>(random_()), false);
    const auto bits = kernel.run(memory, kind.deterministic ? 8 : 1);
    for (const auto& of_launch : bits) {
      EXPECT_TRUE(of_launch == bits.front()) << "a launch gave other bits";
    }
    expect_rounding(memory, problem);
  }
}

/// Sums of dQ that hundreds of CTAs add to in turn: each evaluation compares two launches.
TEST_F(BackwardTurns, ManyTilesGiveTheSameBits) {
  MeasureOptions options;
  options.counters = false;
  MeasuringEvaluator evaluator(bench().generator, options);
  std::mt19937 random(1);
  for (const bool causal : {false, true}) {
    const AttentionBackwardProblem problem{.heads_q = 32,
                                           .heads_kv = 8,
                                           .seq_q = 2000,
                                           .seq_kv = 2000,
                                           .head_dim = 128,
                                           .head_dim_v = 128,
                                           .dtype = DType::bf16,
                                           .causal = causal,
                                           .deterministic = true};
    const DrawnKernel drawn = drawn_kernel(bench(), problem, random);
    for (int i = 0; i < 3; ++i) {
      const VariantResult result = evaluator.evaluate(problem, drawn.variant, drawn.compiled);
      EXPECT_EQ(result.state, ResultState::ok) << to_key(drawn.variant) << ": " << result.detail;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, BackwardProblems,
                         ::testing::Range(0, count_of("SWR_BACKWARD_KERNELS", 6)));

}  // namespace
}  // namespace swr
