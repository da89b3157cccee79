// SPDX-License-Identifier: MIT
// Tuning a user's kernel with NVRTC and the store as they are; only the GPU is faked.
#include "core/operation.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/support/fake_evaluator.h"
#include "tuner/run/tuner.h"
#include <swr/lookup.h>

#include <gmock/gmock.h>

namespace swr {
namespace {

/// Larger blocks are faster; the slow mode is.
class BlockEvaluator final : public Evaluator {
 public:
  const DeviceInfo& device() const override { return device_; }

  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    VariantResult result;
    result.variant = variant;
    result.resources = kernel.resources;
    result.ctas_per_sm = occupancy(kernel.resources, problem, variant, device_).ctas_per_sm;
    result.cubin_digest = kernel.cubin_digest;
    const int block =
        axis_named(variant.operation(), "block_size_x").read(variant.members());
    const int mode = axis_named(variant.operation(), "mode").read(variant.members());
    const int split = axis_named(variant.operation(), "split").read(variant.members());
    result.outcome = Prediction{.time_us = 1000.0 / block + 5.0 * mode + split};
    ++evaluated;
    return result;
  }

  DeviceInfo device_ = test::fictional_device();
  int evaluated = 0;
};

TEST(UserKernelTuning, StoresAndFindsTheBestOfASpec) {
  const TempDirectory directory;
  const Operation& scale = register_kernel(test::scale_spec("tuned_scale"));
  const Problem problem = kernel_problem(scale, {{"n", 4096}});
  const Generator generator({.cache_dir = directory / "cache"});
  BlockEvaluator evaluator;
  {
    Store store(directory / "tuned.db");
    const TuneReport report = tune(problem, evaluator, generator, store, {}, RunInfo{}, nullptr);
    EXPECT_EQ(report.kernels_compiled, 5U) << "splits share a cubin";
    EXPECT_EQ(evaluator.evaluated, 10);
    EXPECT_EQ(dropped_by_constraint(report.dropped, report.left_out).at("block"), 2);
    ASSERT_NE(report.best(), nullptr);
    EXPECT_EQ(to_key(report.best()->variant),
              "family=portable,block_size_x=128,mode=fast,split=1");
  }
  const Lookup lookup(directory / "tuned.db");
  const Answer exact = lookup.best(problem, evaluator.device());
  EXPECT_EQ(to_key(exact.variant), "family=portable,block_size_x=128,mode=fast,split=1");
  const Answer near = lookup.best(kernel_problem(scale, {{"n", 5000}}), evaluator.device());
  EXPECT_EQ(near.variant, exact.variant);
}

}  // namespace
}  // namespace swr
