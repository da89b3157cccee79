// SPDX-License-Identifier: MIT
// What a runtime keeps between calls: kernels that were loaded, and tensor maps.
#include "runtime/kernel_source.h"

#include "driver/cuda_driver.h"
#include "generator/cubin_cache.h"
#include "generator/template_set.h"
#include "runtime/recent_tensor_maps.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>

namespace swr {
namespace {
namespace fs = std::filesystem;

class KernelSourceTest : public ServingTest {
 protected:
  Choice choice(const Problem& problem) const {
    return {Lookup(database_).best(problem, device_), true};
  }
  /// Puts a cubin where the cache keeps it.
  void cache(const CompiledKernel& kernel, const std::string& name) const {
    fs::create_directories(directory_ / "cache" / "cubins");
    std::ofstream file(directory_ / "cache" / "cubins" / (name + ".cubin"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(kernel.cubin.data()),
               static_cast<std::streamsize>(kernel.cubin.size()));
  }
  KernelSource with_cache() const {
    return KernelSource({.database = database_, .generator = {.cache_dir = directory_ / "cache"}});
  }
  /// From now on results are of the templates in effect.
  void begin_current_run() {
    RunInfo run = some_run();
    run.templates_digest = TemplateSet::built_in().digest();
    run_ = store_.begin_run(run);
  }
};

TEST_F(KernelSourceTest, AnExportedKernelServesEveryShapeAndLaunchOfItsKind) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const KernelSource source({.exported = export_all()});
  Choice wanted = source.best_exported(problem_of(8192), device_).value();
  EXPECT_EQ(wanted.answer.level, MatchLevel::nearest);
  attention(wanted.answer.variant).swizzle = AttentionSwizzle::head_fastest;
  const auto kernel = source.find(problem_of(8192), wanted, 90);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->cubin, key_as_cubin({}, tile(128, 64), 90).cubin);
  EXPECT_FALSE(source.find(problem_of(8192), wanted, 120)) << "another architecture";
  AttentionProblem causal = problem_of(8192);
  causal.causal = true;
  EXPECT_FALSE(source.find(causal, wanted, 90)) << "another kind";
  attention(wanted.answer.variant).tile_m = 64;
  EXPECT_FALSE(source.find(problem_of(8192), wanted, 90)) << "another tile";
}

TEST_F(KernelSourceTest, NothingExportedFitsAnotherKind) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const KernelSource source({.exported = export_all()});
  AttentionProblem bf16 = problem_of(4096);
  bf16.dtype = DType::bf16;
  EXPECT_FALSE(source.best_exported(bf16, device_));
}

TEST_F(KernelSourceTest, TheRecordedCubinComesFromTheCacheWithoutACompiler) {
  begin_current_run();
  record(problem_of(4096), tile(128, 64), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(128, 64), 90);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90));
  cache(recorded, recorded.cubin_digest);
  const auto kernel = with_cache().find(problem_of(4096), choice(problem_of(4096)), 90);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->cubin, recorded.cubin);
  EXPECT_EQ(kernel->entry, "swr_attention");
}

TEST_F(KernelSourceTest, WhatWasTunedNearByServesFromTheCacheWhereTheBestIsNotAtHand) {
  begin_current_run();
  record(problem_of(4096), tile(64, 32), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(64, 32), 90);
  cache(recorded, recorded.cubin_digest);
  RuntimeOptions options{.database = database_, .may_compile = false};
  options.generator.cache_dir = directory_ / "cache";
  Runtime runtime(options);
  const PrimaryContext context(0);
  EXPECT_NE(runtime.best(problem_of(6000), device_).variant, tile(64, 32))
      << "the closed form knows better";
  EXPECT_EQ(runtime.prepare(problem_of(6000)).variant, tile(64, 32));
}

TEST_F(KernelSourceTest, ADamagedCubinInTheCacheIsNone) {
  begin_current_run();
  record(problem_of(4096), tile(128, 64), 10.0);
  cache(key_as_cubin({}, tile(64, 64), 90), key_as_cubin({}, tile(128, 64), 90).cubin_digest);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90));
}

TEST_F(KernelSourceTest, ACubinOfOtherTemplatesIsNotTaken) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const CompiledKernel recorded = key_as_cubin({}, tile(128, 64), 90);
  cache(recorded, recorded.cubin_digest);
  EXPECT_FALSE(with_cache().find(problem_of(4096), choice(problem_of(4096)), 90))
      << "it may take other parameters";
}

TEST_F(KernelSourceTest, ADigestThatIsAPathIsNoDigest) {
  EXPECT_FALSE(read_cached_cubin(directory_ / "cache", "../../tuned", Sharing::none));
}

// Tensor maps from memory against maps encoded anew by the fake driver, whose maps tell of their
// arguments.

/// One way to see one piece of memory.
struct View {
  std::uintptr_t address = 4096;
  cuuint32_t rank = 4;
  cuuint64_t sizes[5] = {64, 128, 8, 2, 1};
  cuuint64_t strides_bytes[4] = {128, 16384, 131072, 262144};
  cuuint32_t box_sizes[5] = {64, 128, 1, 1, 1};
  cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;

  template <typename Encode>
  CUresult encode(Encode&& with, CUtensorMap& map) const {
    return with(&map, type, rank, reinterpret_cast<void*>(address), sizes, strides_bytes, box_sizes,
                element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
};

void expect_as_encoded_anew(const View& view) {
  CUtensorMap remembered;
  CUtensorMap anew;
  ASSERT_EQ(view.encode(encode_recent_tensor_map, remembered), CUDA_SUCCESS);
  ASSERT_EQ(view.encode(cuda_driver().launch_calls.tensor_map_encode_tiled, anew), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&remembered, &anew, sizeof anew), 0);
}

struct DriverCalls {
  long long encodings = 0;
  long long replacements = 0;  ///< Of addresses.

  bool operator==(const DriverCalls&) const = default;
};

constexpr DriverCalls kNone{};
constexpr DriverCalls kEncoding{.encodings = 1};
constexpr DriverCalls kReplacement{.replacements = 1};

/// What one more map takes.
DriverCalls driver_calls_of(const View& view) {
  const DriverCalls before{fake_tensor_maps(), fake_replaced_addresses()};
  CUtensorMap map;
  EXPECT_EQ(view.encode(encode_recent_tensor_map, map), CUDA_SUCCESS);
  return {fake_tensor_maps() - before.encodings, fake_replaced_addresses() - before.replacements};
}

class RecentTensorMapsTest : public ::testing::Test {
 protected:
  RecentTensorMapsTest() { use_recent_tensor_maps_of(context_.handle()); }

  PrimaryContext context_{0};
};

TEST_F(RecentTensorMapsTest, AsksTheDriverOnceForTheSameArguments) {
  const View view{.address = 1 << 20U, .sizes = {64, 1001, 8, 2, 1}};
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  EXPECT_EQ(driver_calls_of(view), kNone);
  expect_as_encoded_anew(view);
}

TEST_F(RecentTensorMapsTest, ReplacesTheAddressOfAMapOfTheSameKind) {
  View view{.address = 1 << 20U, .sizes = {64, 1002, 8, 2, 1}};
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  for (int i = 0; i < 3; ++i) {
    view.address += 4096;
    EXPECT_EQ(driver_calls_of(view), kReplacement);
    EXPECT_EQ(driver_calls_of(view), kNone);
    expect_as_encoded_anew(view);
  }
  view.strides_bytes[0] += 16;
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  expect_as_encoded_anew(view);
}

TEST_F(RecentTensorMapsTest, EncodesWhereTheDriverDoesNotReplaceAddresses) {
  View view{.address = 1 << 20U, .sizes = {64, 1003, 8, 2, 1}};
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  view.address += 4096;
  fake_refuse_to_replace_addresses(true);
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  fake_refuse_to_replace_addresses(false);
  EXPECT_EQ(driver_calls_of(view), kNone);
  expect_as_encoded_anew(view);
}

TEST_F(RecentTensorMapsTest, EveryArgumentTellsMapsApart) {
  const View first{.address = 2 << 20U};
  driver_calls_of(first);
  const auto changed = [&](auto&& change) {
    View view = first;
    change(view);
    return view;
  };
  for (const View& view :
       {changed([](View& v) { v.address += 16; }), changed([](View& v) { v.rank = 3; }),
        changed([](View& v) { v.sizes[3] = 3; }),
        changed([](View& v) { v.strides_bytes[2] += 16; }),
        changed([](View& v) { v.box_sizes[0] = 32; }),
        changed([](View& v) { v.element_strides[3] = 2; }),
        changed([](View& v) { v.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; }),
        changed([](View& v) { v.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; })}) {
    expect_as_encoded_anew(view);
    expect_as_encoded_anew(first);
  }
}

TEST_F(RecentTensorMapsTest, AnotherContextAndAnotherThreadEncodeTheirOwn) {
  const View view{.address = 3 << 20U, .sizes = {64, 1004, 8, 2, 1}};
  EXPECT_EQ(driver_calls_of(view), kEncoding);
  {
    const PrimaryContext second(1);
    use_recent_tensor_maps_of(second.handle());
    EXPECT_EQ(driver_calls_of(view), kEncoding);
    expect_as_encoded_anew(view);
  }
  std::thread([&] {
    use_recent_tensor_maps_of(context_.handle());
    EXPECT_EQ(driver_calls_of(view), kEncoding);
  }).join();
}

TEST_F(RecentTensorMapsTest, AFailureIsReportedAndAskedAgain) {
  driver_calls_of(View{.address = 4 << 20U});
  const View unaligned{.address = (4 << 20U) + 8};
  CUtensorMap map;
  EXPECT_EQ(unaligned.encode(encode_recent_tensor_map, map), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unaligned.encode(encode_recent_tensor_map, map), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(RecentTensorMapsTest, ARankThatNoMapHasIsRefused) {
  for (const cuuint32_t rank : {0U, 6U}) {
    CUtensorMap map;
    EXPECT_EQ(View{.rank = rank}.encode(encode_recent_tensor_map, map), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(RecentTensorMapsTest, ManyMoreViewsThanAreRememberedStayRight) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    View view{.address = (1 + random() % 600) * 4096};
    view.sizes[1] = 1 + random() % 3;
    view.box_sizes[1] = random() % 2 == 0 ? 64 : 128;
    view.strides_bytes[0] = 128 + random() % 2 * 16;
    expect_as_encoded_anew(view);
  }
}

}  // namespace
}  // namespace swr
