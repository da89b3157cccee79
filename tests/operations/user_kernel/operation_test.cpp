// SPDX-License-Identifier: MIT
#include "core/operation.h"

#include "core/json.h"
#include "core/metrics.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tuner/run/tuner.h"
#include "tuner/supervise/protocol.h"
#include <swr/generator.h>
#include <swr/lookup.h>
#include <swr/store.h>

namespace swr {
namespace {

const Operation& scale() { return register_kernel(test::scale_spec()); }

DeviceInfo limits() {
  return {.name = "fictional",
          .sm_arch = 90,
          .sm_count = 100,
          .l2_bytes = 1 << 20,
          .dram_gb_per_s = 1000,
          .smem_per_cta_bytes = 100 << 10,
          .smem_per_sm_bytes = 200 << 10,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

TEST(UserKernel, IsRegisteredOnceForEqualSpecs) {
  const std::size_t before = operations().size();
  const Operation& first = scale();
  EXPECT_EQ(&first, &scale());
  EXPECT_THAT(std::string(first.name()), StartsWith("scale_"));
  KernelSpec other = test::scale_spec();
  other.source += "// changed\n";
  const Operation& changed = register_kernel(other);
  EXPECT_NE(&changed, &first) << "results of another source are not these results";
  EXPECT_NE(kernel_digest(changed), kernel_digest(first));
  EXPECT_LE(operations().size(), before + 2);
  EXPECT_THAT(operations_of_swr(), Not(Contains(&first)));
}

TEST(UserKernel, OfASpecWithoutFlopsHasNoRate) {
  KernelSpec silent = test::scale_spec("silent");
  silent.flops.clear();
  const auto has_rate = [](const KernelSpec& spec) {
    const Problem problem = register_kernel(spec).default_problem();
    VariantResult result{.variant = default_variant(problem, limits())};
    result.outcome = Measurement{.median_us = 10.0, .energy = Energy{.samples_mj = {1.0}}};
    int rates = 0;
    for (const Metric& metric : metrics()) {
      const bool is_rate = metric.key == "tflop_per_s" || metric.key == "gflop_per_j";
      rates += is_rate && metric.value(problem, result) ? 1 : 0;
    }
    return rates;
  };
  EXPECT_EQ(has_rate(test::scale_spec()), 2);
  EXPECT_EQ(has_rate(silent), 0);
}

/// Programs ask for answers by it; results do not depend on it.
TEST(UserKernel, KnowsTheObjectiveOfItsSpec) {
  EXPECT_EQ(kernel_objective(scale()), "time");
  KernelSpec frugal = test::scale_spec("frugal");
  frugal.objective = "edp";
  EXPECT_EQ(kernel_objective(register_kernel(frugal)), "edp");
  frugal.name = "misspelt";
  frugal.objective = "enrgy";
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { register_kernel(frugal); }),
      HasSubstr("misspelt: objective 'enrgy': it is no objective and no metric; did you mean"));
}

TEST(UserKernel, HasThePointsOfItsSpecAndSaysWhatDropsOthers) {
  const Problem problem = kernel_problem(scale(), {{"n", 5000}});
  const SearchSpace space = enumerate_space(problem, limits(), {});
  // 4 blocks x 2 modes x 2 splits less 2 blocks of the slow mode; the block of 2048 cannot be.
  EXPECT_EQ(space.variants.size(), 10U);
  ASSERT_EQ(space.dropped.size(), 2U);
  EXPECT_EQ(space.dropped.front().constraint, "block");
  EXPECT_EQ(space.left_out.at("mode == 'fast' or block_size_x <= 64"), 4);
}

void expect_compiles(const KernelSpec& spec) {
  const Problem problem = kernel_problem(register_kernel(spec), {});
  const CompiledKernel compiled =
      Generator({}).compile(problem, default_variant(problem, limits()), 90);
  EXPECT_GT(compiled.resources.registers_per_thread, 0);
}

TEST(UserKernel, ParametersAreNoMacrosInHeadersOfCuda) {
  KernelSpec spec = test::scale_spec("macros");
  spec.source = R"(
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
#include <mma.h>
extern "C" __global__ void scale(float* y, const float* x, float factor, int n) {
  const T sum = size + width + t;
  if (threadIdx.x < n) y[0] = factor * x[0] * sum;
}
)";
  for (const char* const name : {"size", "width", "t"}) {
    spec.parameters.push_back({name, {"4"}});
  }
  spec.parameters.push_back({"T", {"float"}});
  expect_compiles(spec);
}

TEST(UserKernel, CompilesWithTheHeadersOfTheStandardLibrary) {
  KernelSpec spec = test::scale_spec("standard");
  spec.source = R"(
#include <algorithm>
#include <array>
#include <assert.h>
#include <atomic>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <float.h>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits.h>
#include <limits>
#include <math.h>
#include <numeric>
#include <optional>
#include <span>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thrust/complex.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <cub/block/block_reduce.cuh>
#ifndef swr_tune
#include <iostream>
int main() { std::cout << "host"; }
#endif
__device__ int sum_of(std::initializer_list<int> all) { int s = 0; for (int i : all) s += i; return s; }
extern "C" __global__ void scale(float* y, const float* x, float factor, int n) {
  static_assert(std::is_same<std::int32_t, int32_t>::value && INT_MAX == 2147483647 && CHAR_BIT == 8);
  static_assert(std::numeric_limits<float>::max() == FLT_MAX && DBL_MAX > 1e308);
  using Reduce = cub::BlockReduce<float, block_size_x>;
  __shared__ typename Reduce::TempStorage storage;
  std::array<float, 2> two{1.f, float(M_PI)};
  const thrust::complex<float> c = thrust::conj(thrust::exp(thrust::complex<float>(1.f, 2.f))) * 2.f;
  std::size_t i = blockIdx.x * block_size_x + threadIdx.x;
  assert(n > 0);
  if (i < n) y[i] = factor * Reduce(storage).Sum(x[i]) + two[1] + std::sqrt(c.real()) + sum_of({1, 2})
                  + std::get<0>(std::make_tuple(1)) + std::max(1, 2) + INFINITY + std::optional<int>(3).value();
}
)";
  expect_compiles(spec);
  for (const char* const alone : {"climits", "cinttypes", "cuda.h"}) {
    spec.name = "standard_" + std::string(alone, 4);
    spec.source = "#include <" + std::string(alone) + ">\n" + test::kScaleSource;
    expect_compiles(spec);
  }
}

/// More than variants have room for as numbers, and values that keys need characters of.
TEST(UserKernel, HasManyParametersAndValuesOfAnyText) {
  KernelSpec spec = test::scale_spec("crowd");
  for (int i = 0; i < 60; ++i) {
    const std::string name = "p" + std::to_string(i);
    spec.parameters.push_back({name, {"7", "1, 1", "", "{a=b}"}});
    spec.constraints.push_back(i == 0 ? name + " in ['1, 1', '']" : name + " == p0");
  }
  const Operation& crowd = register_kernel(spec);
  const Problem problem = kernel_problem(crowd, {});
  const SearchSpace space = enumerate_space(problem, limits(), {});
  ASSERT_EQ(space.variants.size(), 20U) << "ten, and two values of p0";
  std::set<std::string> keys;
  for (const Variant& variant : space.variants) {
    const std::string key = to_key(variant);
    keys.insert(key);
    EXPECT_EQ(parse_variant(crowd, key), variant);
    EXPECT_EQ(Json(variant).dump(), Json(parse_variant(crowd, key)).dump());
    EXPECT_THAT(key, HasSubstr(",p59=%"));
    const bool is_empty = key.ends_with("%");
    EXPECT_THAT(crowd.program(problem, variant)->text,
                HasSubstr(is_empty ? "#define p59 \n" : "#define p59 1, 1\n"));
  }
  EXPECT_EQ(keys.size(), 20U);
  spec.parameters.resize(130, {"more", {"1"}});
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { register_kernel(spec); }),
              HasSubstr("there must be 1 to 124"));
}

TEST(UserKernel, LooksAtAMillionPointsSpreadOverALargerSpace) {
  KernelSpec spec = test::scale_spec("large");
  std::vector<std::string> numbers;
  for (int i = 1; i <= 1200; ++i) {
    numbers.push_back(std::to_string(i));
  }
  spec.parameters = {{"block_size_x", {"32", "64"}}, {"a", numbers}, {"b", numbers}};
  spec.constraints = {"a % 2 == 0"};
  const Operation& large = register_kernel(spec);
  const Problem problem = large.default_problem();
  const SearchSpace space = enumerate_space(problem, limits(), {});
  EXPECT_EQ(space.variants.size(), 1'000'000U);
  EXPECT_EQ(space.left_out.at("a % 2 == 0"), 2 * 600 * 1200);
  EXPECT_EQ(space.left_out.at("listed"), 2 * 600 * 1200 - 1'000'000);
  std::map<std::string, int> seen;
  std::set<std::string> keys;
  for (const Variant& variant : std::span(space.variants).first(5000)) {
    const std::string key = to_key(variant);
    EXPECT_TRUE(keys.insert(key).second) << key << " is there twice";
    ++seen[key.substr(0, key.find(",a="))];
  }
  EXPECT_NEAR(seen["family=portable,block_size_x=32"], 2500, 50) << "spread evenly";
}

TEST(UserKernel, RestrictsParametersToTheValuesThatAreAsked) {
  const Problem problem = kernel_problem(scale(), {});
  SpaceOptions options;
  options.restrictions["block_size_x"] = {128LL, 32LL};
  options.restrictions["mode"] = {std::string("fast")};
  const SearchSpace space = enumerate_space(problem, limits(), options);
  ASSERT_EQ(space.variants.size(), 4U);
  EXPECT_EQ(to_key(space.variants.front()), "family=portable,block_size_x=128,mode=fast,split=1");
  options.restrictions["block_size_x"] = {48LL};
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { enumerate_space(problem, limits(), options); }),
      HasSubstr("block_size_x has no value 48"));
}

TEST(UserKernel, PutsParametersIntoTheSource) {
  const Problem problem = kernel_problem(scale(), {});
  const Variant variant =
      parse_variant(scale(), "family=portable,block_size_x=128,mode=fast,split=2");
  const auto program = scale().program(problem, variant);
  ASSERT_TRUE(program.has_value());
  EXPECT_THAT(program->text, HasSubstr("#define block_size_x 128\n"));
  EXPECT_THAT(program->text, HasSubstr("#define mode fast\n"));
  EXPECT_THAT(program->text, Not(HasSubstr("split")));
  EXPECT_EQ(kernel_of(variant), kernel_of(parse_variant(scale(), "block_size_x=128,split=1")));
  EXPECT_EQ(launch_geometry(problem, variant, 100, 1).grid_x, 8);
  EXPECT_EQ(launch_geometry(problem, variant, 100, 1).block_x, 128);
}

TEST(UserKernel, SurvivesJsonAndKeys) {
  const Problem problem = kernel_problem(scale(), {{"n", 77}});
  EXPECT_EQ(Json(problem).get<Problem>(), problem);
  const Variant variant = parse_variant(scale(), "block_size_x=32,mode=slow,split=2");
  EXPECT_EQ(variant_from_json(scale(), Json(variant)), variant);
  EXPECT_EQ(parse_variant(scale(), to_key(variant)), variant);
  EXPECT_EQ(to_string(problem), "scale n=77");
}

TEST(UserKernel, RefusesValuesThatTheSpecDoesNotHave) {
  const Problem problem = kernel_problem(scale(), {});
  const Variant variant = parse_variant(scale(), "block_size_x=96");
  const auto dropped = check_constraints(problem, variant, limits());
  ASSERT_TRUE(dropped.has_value());
  EXPECT_EQ(dropped->constraint, "values");
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           kernel_problem(scale(), {{"m", 1}});
                         }),
              HasSubstr("no size 'm'"));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           kernel_problem(scale(), {{"n", 0}});
                         }),
              HasSubstr("n must be 1 or more"));
}

/// Says back what it was asked.
class EchoEvaluator final : public test::PlainEvaluator {
 public:
  const DeviceInfo& device() const override { return device_; }
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    asked = problem;
    entries = kernel.further_entries;
    return VariantResult{
        .variant = variant, .state = ResultState::correctness, .outcome = Measurement{}};
  }

  DeviceInfo device_ = limits();
  Problem asked;
  std::vector<std::string> entries;
};

TEST(UserKernel, ReachesTheMeasuringProcess) {
  const Problem problem = kernel_problem(scale(), {{"n", 99}});
  const Variant variant = parse_variant(scale(), "block_size_x=32,mode=slow");
  const CompiledKernel kernel{.entry = "a", .further_entries = {"b", "c"}, .sm_arch = 90};
  EchoEvaluator evaluator;
  const Json reply = answer(evaluate_request(problem, variant, kernel), evaluator);
  EXPECT_EQ(read_result(reply, variant).variant, variant);
  EXPECT_EQ(evaluator.asked, problem);
  EXPECT_THAT(evaluator.entries, testing::ElementsAre("b", "c"));
}

// Tuning a user's kernel with NVRTC and the store as they are; only the GPU is faked.

/// Larger blocks are faster; the slow mode is.
class BlockEvaluator final : public test::PlainEvaluator {
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

  DeviceInfo device_ = test::fictional_device();
  int evaluated = 0;
};

TEST(UserKernelTuning, StoresAndFindsTheBestOfASpec) {
  const TempDirectory directory;
  const Operation& scale = register_kernel(test::scale_spec("tuned_scale"));
  const Problem problem = kernel_problem(scale, {{"n", 4096}});
  GeneratorOptions generator_options{.cache_dir = kept_kernels()};
  const Generator generator(generator_options);
  BlockEvaluator evaluator;
  {
    Store store(directory / "tuned.db", Store::Mode::read_write);
    TuneOptions options{.compile_threads = 2,
                        .provenance = Provenance::predicted,
                        .run_id = store.begin_run({.command = "test"})};
    QuietProgress progress;
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
