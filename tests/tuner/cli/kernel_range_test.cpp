// SPDX-License-Identifier: MIT
#include "tuner/cli/kernel_range.h"

#include "core/operation.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/kernel.h>

namespace swr::cli {
namespace {

std::vector<Problem> problems_of(const std::string& line) {
  std::vector<Problem> all;
  for (const ProblemRange& range : parse_kernel_range(line).problems) {
    range.each(1, [&](const Problem& problem) { all.push_back(problem); });
  }
  return all;
}

TEST(KernelRange, CombinesWhatBarsSeparateAndDrawsTheRest) {
  const auto problems = problems_of(
      "attention draws=50 head_dim=64|128 causal=0|1 heads_kv=2,4 heads_q=heads_kv*8 "
      "seq_q=16..4096/16 seq_kv=seq_q*1");
  ASSERT_EQ(problems.size(), 200U);
  std::set<std::pair<int, bool>> combinations;
  for (const Problem& problem : problems) {
    const auto& asked = problem.as<AttentionProblem>();
    combinations.insert({asked.head_dim, asked.causal});
    EXPECT_EQ(asked.heads_q, 8 * asked.heads_kv);
    EXPECT_EQ(asked.seq_q % 16, 0);
    EXPECT_TRUE(asked.seq_q >= 16 && asked.seq_q <= 4096);
    EXPECT_EQ(asked.seq_kv, asked.seq_q);
  }
  EXPECT_EQ(combinations.size(), 4U);
}

TEST(KernelRange, LeavesOutWhatIsNoProblem) {
  EXPECT_EQ(problems_of("attention draws=3 head_dim=64|72 seq_q=64 seq_kv=64").size(), 3U);
}

TEST(KernelRange, SaysWhatIsWrongWithALine) {
  for (const auto& [line, text] : {std::pair{"attention draws", "has no '='"},
                                   {"attention colour=1", "no field colour"},
                                   {"attention seq_q=long", "'long' is no number"},
                                   {"carpets draws=1", "carpets"}}) {
    const std::string message = message_of(ErrorCode::invalid_argument,
                                           [&] { parse_kernel_range(std::string("# \n") + line); });
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_THAT(message, HasSubstr("line 2"));
  }
}

TEST(KernelRange, OfThePackageHasEveryOperationAndEveryTemplateBesideThem) {
  const KernelRange range = shipped_range();
  std::set<std::string> operations;
  for (ProblemRange problems : range.problems) {
    problems.draws = 1;
    int count = 0;
    problems.each(1, [&](const Problem&) { ++count; });
    EXPECT_GT(count, 0) << name_of(*problems.operation);
    operations.insert(std::string(name_of(*problems.operation)));
  }
  EXPECT_EQ(operations.size(), operations_of_swr().size());
  EXPECT_EQ(range.templates.size(), 2U);
}

TEST(KernelRange, KernelsThatAreChosenForSomeServeNearlyAll) {
  std::vector<ProblemRange> ranges =
      parse_kernel_range(
          "attention_backward draws=60 head_dim=64|128 head_dim_v=head_dim*1 causal=0|1 "
          "batch=1..64 "
          "heads_kv=1,2,8 heads_q=heads_kv*1,heads_kv*4 seq_q=16..16384 seq_kv=seq_q*1")
          .problems;
  const std::vector<DeviceInfo> devices{load_profile("h200").device};
  std::set<std::string> chosen;
  for (const RangedKernel& kernel : untuned_kernels(ranges, devices, 1)) {
    chosen.insert(kernel.identity);
  }
  EXPECT_LT(chosen.size(), 20U);
  int all = 0;
  int served = 0;
  for (const RangedKernel& kernel : untuned_kernels(ranges, devices, 2)) {
    all += kernel.problems;
    served += chosen.contains(kernel.identity) ? kernel.problems : 0;
  }
  EXPECT_EQ(all, 240);
  EXPECT_GT(served, 0.98 * all);
}

TEST(KernelRange, EveryKernelForAGb10FitsItsSharedMemory) {
  constexpr int kSmemOfACta = 99 * 1024;
  const DeviceInfo gb10 = load_profile("gb10").device;
  std::vector<ProblemRange> ranges = shipped_range().problems;
  for (ProblemRange& range : ranges) {
    range.draws = 4;
  }
  for (const RangedKernel& kernel : untuned_kernels(ranges, {gb10}, 1)) {
    EXPECT_LE(smem_bytes(kernel.problem, kernel.variant), kSmemOfACta)
        << to_string(kernel.problem) << " " << to_key(kernel.variant);
  }
}

}  // namespace
}  // namespace swr::cli
