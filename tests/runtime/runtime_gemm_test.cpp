// SPDX-License-Identifier: MIT
// Dispatch of GEMM against the fake driver.
#include "driver/cuda_driver.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/own_memory.h"
#include "tests/runtime/serving.h"
#include "tests/support/with.h"
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

GemmProblem product(int m, int n = 4096, int k = 4096) { return {.m = m, .n = n, .k = k}; }

GemmVariant hopper_tile(int tile_m, int tile_n) {
  return {.family = Family::hopper,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 64,
          .stages = 2,
          .consumers = tile_m / 64,
          .persistence = Persistence::persistent};
}

/// Contiguous matrices at an address that nobody reads.
GemmCall call_of(const GemmProblem& problem) {
  GemmCall call{.dtype = problem.dtype, .output = problem.output, .layout = problem.layout};
  GemmParams& p = call.params;
  p.a = p.b = p.c = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
  p.m = problem.m;
  p.n = problem.n;
  p.k = problem.k;
  p.batch = problem.batch;
  p.a_strides.row = problem.layout == GemmLayout::tn ? problem.m : problem.k;
  p.b_strides.row = problem.layout == GemmLayout::nt ? problem.k : problem.n;
  p.c_strides.row = problem.n;
  return call;
}

class GemmRuntimeTest : public ServingTest {
 protected:
  RuntimeOptions serving_only() {
    return {.database = database_, .exported = export_all(), .may_compile = false};
  }

  PrimaryContext context_{0};
  CUstream_st* stream_ = reinterpret_cast<CUstream_st*>(std::uintptr_t{64});
};

TEST_F(GemmRuntimeTest, MakesTheMapsOfTheSameTensorsOnce) {
  record(product(4096), hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  GemmCall call = call_of(product(4096));
  call.params.b = reinterpret_cast<void*>(std::uintptr_t{3} << 20U);
  const auto maps_of_launch = [&] {
    const long long before = fake_tensor_maps() + fake_replaced_addresses();
    runtime.gemm(call, stream_);
    return fake_tensor_maps() + fake_replaced_addresses() - before;
  };
  EXPECT_EQ(maps_of_launch(), 3);
  EXPECT_EQ(maps_of_launch(), 0);
  call.params.b = reinterpret_cast<void*>(std::uintptr_t{5} << 20U);
  EXPECT_EQ(maps_of_launch(), 1);
}

TEST_F(GemmRuntimeTest, NeedsNeitherANorBWhereNobodyReadsThem) {
  record(product(4096), hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  GemmCall call = call_of(product(4096));
  call.params.a = call.params.b = nullptr;
  EXPECT_EQ(error_of([&] { runtime.gemm(call, stream_); }).code(), ErrorCode::invalid_argument);
  call.params.alpha = 0.0F;
  runtime.gemm(call, stream_);
  EXPECT_EQ(fake_last_launch().gemm.alpha, 0.0F);
  EXPECT_EQ(fake_last_launch().gemm.k, 4096);
  call.params.alpha = 2.0F;
  call.params.k = 0;
  call.params.a_strides.row = call.params.b_strides.row = 1;
  runtime.gemm(call, stream_);
  EXPECT_EQ(fake_last_launch().gemm.alpha, 0.0F) << "a sum over nothing is 0";
  EXPECT_EQ(fake_last_launch().gemm.k, 1);
}

TEST_F(GemmRuntimeTest, EmptyProductsLaunchNothing) {
  record(product(4096), hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  const long long launches = fake_launches();
  for (int GemmParams::*const size : {&GemmParams::m, &GemmParams::n, &GemmParams::batch}) {
    GemmCall call = call_of(product(4096));
    call.params.*size = 0;
    call.params.c = nullptr;
    runtime.gemm(call, stream_);
    call.params.k = -1;
    EXPECT_EQ(error_of([&] { runtime.gemm(call, stream_); }).code(), ErrorCode::invalid_argument);
  }
  EXPECT_EQ(fake_launches(), launches);
}

TEST_F(GemmRuntimeTest, LaunchesTheBestVariantWithItsChoices) {
  GemmVariant variant = hopper_tile(64, 128);
  variant.cluster_m = 2;
  variant.raster = Raster::serpentine;
  variant.raster_group = 4;
  variant.swizzle_stride = 1024;
  record(product(4096), variant, 10.0);
  record(product(4096), hopper_tile(64, 64), 20.0);
  Runtime runtime(serving_only());
  runtime.gemm(call_of(product(4096)), stream_);
  const FakeLaunch launch = fake_last_launch();
  EXPECT_EQ(launch.cluster_x, 2U);
  EXPECT_EQ(launch.grid_x % 2, 0U);
  EXPECT_EQ(launch.block_x, 256U) << "a loading and a computing warpgroup";
  EXPECT_EQ(launch.stream, stream_);
  EXPECT_TRUE(launch.overlaps);
  EXPECT_EQ(launch.gemm.raster, Raster::serpentine);
  EXPECT_EQ(launch.gemm.raster_group, 4);
  EXPECT_EQ(launch.gemm.swizzle_stride, 1024);
  EXPECT_EQ(launch.gemm.m, 4096);
}

GemmProblem fp8_product(int m) {
  return with(product(m), &GemmProblem::dtype, DType::e4m3, &GemmProblem::scaling, Scaling::block,
              &GemmProblem::accuracy, Accuracy::two_level, &GemmProblem::has_bias, true,
              &GemmProblem::activation, Activation::silu);
}

GemmCall fp8_call(int m) {
  const GemmProblem problem = fp8_product(m);
  GemmCall call = call_of(problem);
  call.scaling = problem.scaling;
  call.accuracy = problem.accuracy;
  call.activation = problem.activation;
  float* const scales = reinterpret_cast<float*>(std::uintptr_t{7} << 20U);
  call.extras = {.a_scales = scales,
                 .b_scales = scales + 4,
                 .a_scale_stride = m,
                 .b_scale_stride = 32,
                 .bias = scales + 8};
  return call;
}

TEST_F(GemmRuntimeTest, ScalesAndBiasReachTheKernelOfTheirKind) {
  GemmVariant variant = hopper_tile(128, 128);
  variant.tile_k = 128;
  variant.promote_every = 128;
  record(fp8_product(4096), variant, 10.0);
  record(product(4096), hopper_tile(64, 128), 5.0);
  Runtime runtime(serving_only());
  const GemmCall call = fp8_call(4096);
  EXPECT_EQ(problem_of(call), fp8_product(4096));
  runtime.gemm(call, stream_);
  const FakeLaunch launch = fake_last_launch();
  EXPECT_EQ(launch.block_x, 384U);
  EXPECT_EQ(launch.gemm_extras.a_scales, call.extras.a_scales);
  EXPECT_EQ(launch.gemm_extras.b_scale_stride, 32);
  EXPECT_EQ(launch.gemm_extras.bias, call.extras.bias);
}

TEST_F(GemmRuntimeTest, SaysWhatIsWrongWithScales) {
  const auto message = [](const std::function<void(GemmCall&)>& change) {
    GemmCall call = fp8_call(4096);
    change(call);
    return error_text([&] { problem_of(call); });
  };
  EXPECT_EQ(message([](GemmCall&) {}), "");
  EXPECT_THAT(message([](GemmCall& c) { c.extras.b_scales = nullptr; }), HasSubstr("null"));
  EXPECT_THAT(message([](GemmCall& c) { c.extras.a_scale_stride = 4092; }), HasSubstr("closer"));
  EXPECT_THAT(message([](GemmCall& c) { c.extras.a_scale_stride = 4097; }), HasSubstr("16 bytes"));
  EXPECT_THAT(message([](GemmCall& c) { c.extras.a_scales += 2; }), HasSubstr("16 bytes"));
  EXPECT_THAT(message([](GemmCall& c) { c.extras.bias = c.extras.a_scales + 1; }),
              HasSubstr("8 bytes"));
}

TEST_F(GemmRuntimeTest, TheAddendIsAsAlignedAsC) {
  GemmCall call = call_of(product(64));
  call.params.beta = 1.0F;
  for (const int bytes : {16, 8, 2}) {
    call.extras.addend = static_cast<char*>(call.params.c) + bytes;
    EXPECT_EQ(problem_of(call).alignment_bytes, bytes);
  }
}

/// Calls of all counts near 1000 rows are one problem.
TEST_F(GemmRuntimeTest, GroupsAreLookedUpByTheirAverageAndSkew) {
  GemmProblem problem = product(1024);
  problem.batch = 8;
  problem.groups = GemmGroups::offsets;
  record(problem, hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  GemmCall call = call_of(problem);
  call.params.m = 8 * 1000;
  call.params.b_strides.batch = 4096LL * 4096;
  call.params.groups = reinterpret_cast<const int*>(std::uintptr_t{7} << 20U);
  call.grouping.form = GemmGroups::offsets;
  EXPECT_EQ(problem_of(call), problem);
  runtime.gemm(call, stream_);
  EXPECT_EQ(fake_last_launch().gemm.groups, call.params.groups);
  EXPECT_EQ(fake_last_launch().gemm.m, 8000);
  call.grouping.expected_rows = 33;
  call.grouping.skewed = true;
  EXPECT_EQ(problem_of(call).m, 64);
  EXPECT_TRUE(problem_of(call).skewed);
  call.grouping = {.form = GemmGroups::masked};
  call.params.m = 256;
  EXPECT_EQ(problem_of(call).m, 256) << "as many as an item has room for";
  for (const int m : {1, 16, 4096}) {
    problem.m = m;
    problem.groups = GemmGroups::masked;
    const Answer untuned = runtime.best(problem, device_);
    EXPECT_FALSE(check_constraints(problem, untuned.variant, device_)) << to_string(problem);
  }
  call.params.groups = nullptr;
  EXPECT_THROW(problem_of(call), Error);
}

/// Hopper GEMM has waited since exports have had their version.
TEST_F(GemmRuntimeTest, OldExportsOfTheHopperFamilyOverlapToo) {
  record(product(4096), hopper_tile(64, 128), 10.0);
  export_all();
  forget_waits();
  Runtime runtime({.exported = exported_, .may_compile = false});
  runtime.gemm(call_of(product(4096)), stream_);
  EXPECT_TRUE(fake_last_launch().overlaps);
}

TEST_F(GemmRuntimeTest, AnswersForANearShapeOfTheSameKindOnly) {
  // No closed form calls it much worse than its own on the fake device, which has little memory.
  const GemmVariant good{.tile_m = 128, .tile_n = 256, .stages = 4, .warps_m = 2, .warps_n = 4};
  record(product(4096), good, 10.0);
  record(product(128), hopper_tile(64, 64), 1.0);
  record(problem_of(4096), tile(128, 64), 5.0);
  const Runtime runtime(serving_only());
  const Answer near = runtime.best(product(3072), device_);
  EXPECT_EQ(near.level, MatchLevel::nearest);
  EXPECT_EQ(near.variant, good);
  EXPECT_EQ(near.stored_problem, product(4096));
  EXPECT_DOUBLE_EQ(near.distance, std::log2(4.0 / 3.0));
  EXPECT_DOUBLE_EQ(near.time_us.value(), 7.5) << "three quarters of the work";
  GemmProblem transposed = product(4096);
  transposed.layout = GemmLayout::tn;
  EXPECT_EQ(runtime.best(transposed, device_).level, MatchLevel::modelled);
  EXPECT_EQ(runtime.best(problem_of(4096), device_).variant, tile(128, 64));
}

TEST_F(GemmRuntimeTest, SplitsGetMemoryOfTheirOwnPerStreamAndCapture) {
  GemmVariant variant = hopper_tile(64, 128);
  variant.splits = 4;
  record(product(64), variant, 10.0);
  Runtime runtime(serving_only());
  const auto partials_on = [&](CUstream_st* stream) {
    runtime.gemm(call_of(product(64)), stream);
    EXPECT_EQ(fake_last_launch().gemm.splits, 4);
    EXPECT_EQ(*fake_last_launch().gemm.arrivals, 0U);
    return fake_last_launch().gemm.partials;
  };
  expect_memory_by_stream_and_capture(partials_on, stream_);
}

TEST_F(GemmRuntimeTest, KernelsThatDoNotWaitFollowTheLaunchBefore) {
  record(product(64), GemmVariant{}, 10.0);
  Runtime runtime(serving_only());
  runtime.gemm(call_of(product(64)), stream_);
  EXPECT_FALSE(fake_last_launch().overlaps);
}

TEST_F(GemmRuntimeTest, OddRowsOfAAndBAreCopiedByALaunchBefore) {
  GemmProblem problem = product(64);
  problem.alignment_bytes = 2;
  record(problem, hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  GemmCall call = call_of(problem);
  const auto launches_of = [&] {
    const long long before = fake_launches();
    runtime.gemm(call, stream_);
    return fake_launches() - before;
  };
  call.params.c_strides.row = 4097;
  EXPECT_EQ(launches_of(), 1) << "threads store C";
  EXPECT_EQ(fake_last_launch().gemm.partials, nullptr);
  call.params.a_strides.row = 4097;
  EXPECT_EQ(launches_of(), 2);
  EXPECT_NE(fake_last_launch().gemm.partials, nullptr);
  call.params.alpha = 0.0F;
  EXPECT_EQ(launches_of(), 1) << "nobody reads A and B";
}

TEST_F(GemmRuntimeTest, KernelsWithoutSplitsGetNoMemory) {
  record(product(64), hopper_tile(64, 128), 10.0);
  Runtime runtime(serving_only());
  runtime.gemm(call_of(product(64)), stream_);
  EXPECT_EQ(fake_last_launch().gemm.partials, nullptr);
}

TEST(GemmCall, PosesTheProblemOfItsPointersAndStrides) {
  GemmCall call = call_of(product(4096));
  EXPECT_EQ(problem_of(call), product(4096));
  call.params.beta = 0.5F;
  EXPECT_TRUE(problem_of(call).reads_c);
  call.params.c_strides.row = 4098;
  EXPECT_EQ(problem_of(call).alignment_bytes, 4);
  call.params.m = 1;
  EXPECT_EQ(problem_of(call).alignment_bytes, 16) << "no step takes the stride of C's only row";
  call.params.b = nullptr;
  EXPECT_THROW(problem_of(call), Error);
  call = call_of(product(4096));
  call.params.a = reinterpret_cast<void*>((std::uintptr_t{1} << 20U) + 1);
  EXPECT_THROW(problem_of(call), Error);
  call = call_of(product(0));
  EXPECT_THROW(problem_of(call), Error);
}

}  // namespace
}  // namespace swr
