// SPDX-License-Identifier: MIT
// Tuning a user's kernel with NVRTC and the store as they are; only the GPU is faked.
#include "core/operation.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/support/fake_evaluator.h"
#include "tuner/run/tuner.h"
#include <swr/generator.h>
#include <swr/lookup.h>
#include <swr/store.h>

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
    const int block = axis_named(variant.operation(), "block_size_x").read(variant.members());
    const int mode = axis_named(variant.operation(), "mode").read(variant.members());
    const int split = axis_named(variant.operation(), "split").read(variant.members());
    result.outcome = Prediction{.time_us = 1000.0 / block + 5.0 * mode + split};
    ++evaluated;
    return result;
  }

  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    return {contenders.size(), CounterReading{std::nullopt, "a fake has no counters"}};
  }
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return {contenders.size(), AccessReading{std::nullopt, "a fake counts no accesses"}};
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  RaceResult race(const Problem& /*problem*/, std::span<const Contender> /*contenders*/,
                  const RaceOptions& /*options*/) override {
    return {};
  }

  DeviceInfo device_ = test::fictional_device();
  int evaluated = 0;
};

class SilentProgress final : public Progress {
 public:
  void begin(const std::string& /*title*/, std::size_t /*total*/) override {}
  void advance(const VariantResult& /*result*/) override {}
  void end() override {}
};

TEST(UserKernelTuning, StoresAndFindsTheBestOfASpec) {
  const TempDirectory directory;
  const Operation& scale = register_kernel(test::scale_spec("tuned_scale"));
  const Problem problem = kernel_problem(scale, {{"n", 4096}});
  GeneratorOptions generator_options;
  generator_options.cache_dir = directory / "cache";
  const Generator generator(generator_options);
  BlockEvaluator evaluator;
  {
    Store store(directory / "tuned.db", Store::Mode::read_write);
    TuneOptions options;
    options.compile_threads = 2;
    options.provenance = Provenance::predicted;
    options.run_id = store.begin_run({.command = "test",
                                      .swr_version = "0",
                                      .templates_digest = "digest",
                                      .nvrtc_version = "0.0",
                                      .driver_version = "",
                                      .l2_state = ""});
    SilentProgress progress;
    const TuneReport report = tune(problem, evaluator, generator, store, options, progress);
    EXPECT_EQ(report.kernels_compiled, 5U) << "splits share a cubin";
    EXPECT_EQ(evaluator.evaluated, 10);
    EXPECT_EQ(dropped_by_constraint(report.dropped, report.left_out).at("block"), 2);
    ASSERT_NE(report.best(), nullptr);
    EXPECT_EQ(to_key(report.best()->variant), "family=portable,block_size_x=128,mode=fast,split=1");
  }
  const Lookup lookup(directory / "tuned.db");
  const Answer exact = lookup.best(problem, evaluator.device());
  EXPECT_EQ(to_key(exact.variant), "family=portable,block_size_x=128,mode=fast,split=1");
  const Answer near = lookup.best(kernel_problem(scale, {{"n", 5000}}), evaluator.device());
  EXPECT_EQ(near.variant, exact.variant);
}

}  // namespace
}  // namespace swr
