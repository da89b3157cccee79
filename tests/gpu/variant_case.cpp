// SPDX-License-Identifier: MIT
#include "tests/gpu/variant_case.h"

#include "operations/attention/config.h"
#include "operations/attention/workload.h"
#include <swr/constraints.h>

namespace swr {

void VariantTest::expect_match(const VariantCase& given) {
  const auto& [name, problem, variant, order, with_lse] = given;
  const auto dropped = check_constraints(problem, variant, bench().device);
  if (dropped) {
    GTEST_SKIP() << dropped->constraint << ": " << dropped->reason;
  }
  const CompiledKernel& compiled = bench().compile(problem, variant);
  const Occupancy resident = occupancy(compiled.resources, problem, variant, bench().device);
  ASSERT_GE(resident.ctas_per_sm, 1) << resident.limited_by;
  const AttentionLaunchPlan plan =
      launch_plan(problem, variant, bench().device.sm_count, resident.ctas_per_sm);
  const ProblemBuffers buffers(problem, bench().kernels, bench().stream, 11, order);
  const Verifier verifier(bench().kernels, buffers, bench().stream);

  const AttentionKernel kernel(compiled, plan);
  const KvSplitMemory splits(plan, buffers.params(with_lse), bench().stream);
  kernel.launch(splits.of_launch(buffers.params(with_lse)), bench().stream.handle());
  EXPECT_EQ(verifier.check(with_lse).failure, "") << to_string(problem) << " " << to_key(variant);
}

}  // namespace swr
