// SPDX-License-Identifier: MIT
#include "tuner/measure/shared_kernels.h"

#include "tests/support/fake_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/generator.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace swr {
namespace {

CompiledKernel kernel_of_digest(const std::string& digest) {
  CompiledKernel kernel;
  kernel.entry = "entry";
  kernel.cubin_digest = digest;
  return kernel;
}

class SharedKernelsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Kernel> get(const std::string& digest) {
    return kernels_.get(kernel_of_digest(digest));
  }

  std::vector<std::string> loaded_;

 private:
  SharedKernels kernels_{[this](const CompiledKernel& compiled) {
    loaded_.push_back(compiled.cubin_digest);
    return std::make_shared<const Kernel>();
  }};
};

TEST_F(SharedKernelsTest, LoadsAKernelOnceForVariantsInARow) {
  get("a");
  get("a");
  get("b");
  get("b");
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b"}));
}

TEST_F(SharedKernelsTest, LoadsAKernelAnewThatNobodyHasAnyMore) {
  get("a");
  get("b");
  get("a");
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b", "a"}));
}

TEST_F(SharedKernelsTest, SharesWhatIsInUse) {
  const auto first = get("a");
  const auto other = get("b");
  EXPECT_EQ(get("a"), first);
  EXPECT_NE(first, other);
  EXPECT_EQ(loaded_, (std::vector<std::string>{"a", "b"}));
}

/// Sharing a kernel means sharing its largest amount of dynamic shared memory, an attribute of the
/// function.
TEST(VariantsOfOneKernel, TakeEquallyMuchSharedMemory) {
  DeviceInfo hopper = test::fictional_device();
  hopper.sm_arch = 90;
  hopper.smem_per_cta_bytes = 232448;
  hopper.smem_per_sm_bytes = 233472;
  const Problem attention = AttentionProblem{.heads_q = 16,
                                             .heads_kv = 16,
                                             .seq_q = 4096,
                                             .seq_kv = 4096,
                                             .head_dim = 128,
                                             .causal = true};
  const Problem gemm = GemmProblem{.m = 512, .n = 512, .k = 4096};
  for (const Problem& problem : {attention, gemm}) {
    std::map<Variant, int> bytes;
    const auto variants = enumerate_space(problem, hopper, {}).variants;
    for (const Variant& variant : variants) {
      const int its_bytes = smem_bytes(problem, variant);
      EXPECT_EQ(bytes.try_emplace(kernel_of(variant), its_bytes).first->second, its_bytes)
          << to_key(variant);
    }
    EXPECT_LT(bytes.size(), variants.size());
  }
}

}  // namespace
}  // namespace swr
