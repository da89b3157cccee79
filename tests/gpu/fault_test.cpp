// SPDX-License-Identifier: MIT
// What the evaluator says about a kernel that faults. A program of its own: the fault leaves the
// process without a usable context.
#include "tests/gpu/replaced_kernel.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

class FaultingKernel : public ReplacedKernel {};

TEST_F(FaultingKernel, IsARuntimeFailureAfterWhichTheEvaluatorRefusesToGoOn) {
  const AttentionProblem problem = square(1, 128, 64);
  MeasuringEvaluator evaluator(bench().generator, without_counters());
  const CompiledKernel good = bench().compile(problem, AttentionVariant{});
  const VariantResult fault =
      evaluate_body(evaluator, problem, "  *reinterpret_cast<volatile int*>(16) = 1;\n");
  EXPECT_EQ(fault.state, ResultState::runtime);
  EXPECT_THAT(fault.detail, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(message_of(ErrorCode::driver_failed,
                         [&] { evaluator.evaluate(problem, AttentionVariant{}, good); }),
              HasSubstr("run the command again"));
}

}  // namespace
}  // namespace swr
