// SPDX-License-Identifier: MIT
// What a runtime keeps between calls: kernels that were loaded, and tensor maps.
#include "runtime/kernel_source.h"

#include "core/sha256.h"
#include "driver/cuda_driver.h"
#include "generator/cubin_cache.h"
#include "generator/kernel_archive.h"
#include "generator/kernel_recipe.h"
#include "generator/template_set.h"
#include "runtime/loaded_kernels.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>

#include <cstring>

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

// Kernels that ship: what serves, and what must never be loaded.

class ShippedKernelsTest : public ServingTest {
 protected:
  ~ShippedKernelsTest() override { unsetenv("SWR_KERNELS"); }

  /// As it would be compiled from the templates of today.
  KernelToArchive shipped(const Problem& problem, const Variant& variant) const {
    return {variant_recipe(templates_, problem, variant, 90).digest(), "attention portable",
            key_as_cubin(problem, variant, 90)};
  }
  /// With what is chosen for a problem, and others around it.
  void ship(const Problem& problem) const {
    const Variant chosen = Lookup(LookupOptions{}).best(problem, device_).variant;
    write_kernel_archive(archive_, {shipped(problem, chosen), shipped(problem, tile(64, 32)),
                                    shipped(problem, tile(16, 16))});
  }
  RuntimeOptions without_compiler() const {
    RuntimeOptions options{.may_compile = false, .kernels = archive_};
    options.generator.nvrtc_library = directory_ / "nowhere.so";
    return options;
  }
  void write(const std::string& text) const { std::ofstream(archive_, std::ios::binary) << text; }

  const TemplateSet templates_ = TemplateSet::built_in();
  fs::path archive_ = directory_ / "swr-kernels.bin";
  PrimaryContext context_{0};
};

TEST_F(ShippedKernelsTest, ServeUntunedAnswersWithoutACompiler) {
  ship(problem_of(4096));
  Runtime runtime(without_compiler());
  const long long launches = fake_launches();
  runtime.attention(call_of(problem_of(4096)), nullptr);
  EXPECT_EQ(fake_launches(), launches + 1);
}

TEST_F(ShippedKernelsTest, ServeWhatIsAddedToARuntime) {
  RuntimeOptions options = without_compiler();
  options.kernels = "";
  Runtime runtime(options);
  EXPECT_EQ(error_of([&] { runtime.prepare(problem_of(4096)); }).code(), ErrorCode::not_compiled);
  ship(problem_of(4096));
  runtime.use_kernels(archive_);
  EXPECT_EQ(runtime.prepare(problem_of(4096)).level, MatchLevel::modelled);
}

TEST_F(ShippedKernelsTest, AreFoundAsWhatTheyWere) {
  const Variant variant = tile(64, 32);
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  const CompiledKernel wanted = key_as_cubin(problem_of(4096), variant, 90);
  const auto found = archive.find(variant_recipe(templates_, problem_of(4096), variant, 90));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cubin, wanted.cubin);
  EXPECT_EQ(found->cubin_digest, wanted.cubin_digest);
  EXPECT_EQ(found->entry, wanted.entry);
  EXPECT_EQ(found->resources, wanted.resources);
  EXPECT_EQ(found->may_overlap, wanted.may_overlap);
  EXPECT_FALSE(archive.find(variant_recipe(templates_, problem_of(4096), variant, 120)));
}

TEST_F(ShippedKernelsTest, ServeEveryShapeThatTakesTheSameKernel) {
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  AttentionProblem causal = problem_of(4096);
  causal.causal = true;
  EXPECT_TRUE(archive.find(variant_recipe(templates_, problem_of(77), tile(64, 32), 90)));
  EXPECT_FALSE(archive.find(variant_recipe(templates_, causal, tile(64, 32), 90)));
}

TEST_F(ShippedKernelsTest, OfOtherTemplatesAreNone) {
  ship(problem_of(4096));
  const KernelArchive archive(archive_);
  const auto with = [&](const char* path) {
    const TemplateSet other = templates_.with(path, templates_.text(path) + "\n");
    return archive.find(variant_recipe(other, problem_of(4096), tile(64, 32), 90));
  };
  EXPECT_FALSE(with("common/smem_layout.h")) << "a file that the kernel includes";
  EXPECT_TRUE(with("softmax/softmax.cu")) << "one that it does not";
}

TEST_F(ShippedKernelsTest, NoDamagedFileGivesAnotherKernel) {
  ship(problem_of(4096));
  const std::string whole = bytes_of(archive_);
  const KernelRecipe recipe = variant_recipe(templates_, problem_of(4096), tile(64, 32), 90);
  const CompiledKernel wanted = key_as_cubin(problem_of(4096), tile(64, 32), 90);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write(damaged);
    try {
      const auto found = KernelArchive(archive_).find(recipe);
      EXPECT_TRUE(found && found->cubin == wanted.cubin) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable) << "byte " << at;
      EXPECT_THAT(error.what(), HasSubstr(archive_.string()));
    }
  }
}

TEST_F(ShippedKernelsTest, ACutFileIsRefused) {
  ship(problem_of(4096));
  const std::string whole = bytes_of(archive_);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write(whole.substr(0, length));
    EXPECT_EQ(error_of([&] { KernelArchive{archive_}; }).code(), ErrorCode::unreadable) << length;
  }
}

TEST_F(ShippedKernelsTest, AForgedIndexTakesNoMemory) {
  ship(problem_of(4096));
  std::string forged = bytes_of(archive_);
  constexpr std::size_t kDigest = 24;
  constexpr std::size_t kIndex = kDigest + 32;
  std::uint64_t index_bytes = 0;
  std::memcpy(&index_bytes, forged.data() + 16, sizeof index_bytes);
  forged.replace(kIndex + 24, 4, 4, '\xff');  // The first block's bytes.
  const std::string digest = sha256_hex(std::string_view(forged).substr(kIndex, index_bytes));
  for (std::size_t i = 0; i < 32; ++i) {
    forged[kDigest + i] = static_cast<char>(std::stoi(digest.substr(2 * i, 2), nullptr, 16));
  }
  write(forged);
  EXPECT_THAT(error_of([&] { KernelArchive{archive_}; }).what(), HasSubstr("too large"));
}

TEST_F(ShippedKernelsTest, AFileThatIsNamedMustBeRight) {
  write("something else");
  EXPECT_EQ(error_of([&] { Runtime{without_compiler()}; }).code(), ErrorCode::unreadable);
}

TEST_F(ShippedKernelsTest, AnInstalledOneThatIsDamagedIsLeftAsideAndSaid) {
  write("something else");
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  RuntimeOptions options = without_compiler();
  options.kernels.reset();
  testing::internal::CaptureStderr();
  Runtime runtime(options);
  EXPECT_EQ(error_of([&] { runtime.prepare(problem_of(4096)); }).code(), ErrorCode::not_compiled);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is no archive of kernels"));
}

TEST_F(ShippedKernelsTest, WhatIsInstalledServesWithoutASetting) {
  ship(problem_of(4096));
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  RuntimeOptions options = without_compiler();
  options.kernels.reset();
  Runtime runtime(options);
  EXPECT_EQ(runtime.prepare(problem_of(4096)).level, MatchLevel::modelled);
}

TEST_F(ShippedKernelsTest, ThatOneIsMissingIsSaidOnce) {
  ship(problem_of(4096));
  RuntimeOptions options = without_compiler();
  options.may_compile = true;
  Runtime runtime(options);
  testing::internal::CaptureStderr();
  for (const GemmProblem& missing :
       {GemmProblem{.m = 64, .n = 64, .k = 64}, GemmProblem{.m = 4096, .n = 64, .k = 64}}) {
    EXPECT_EQ(error_of([&] { runtime.prepare(missing); }).code(), ErrorCode::no_nvrtc);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("none of the 3 kernels for sm_90"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(ShippedKernelsTest, AreExportedWhereThereIsNoCompiler) {
  write_kernel_archive(archive_, {shipped(problem_of(4096), tile(128, 64))});
  setenv("SWR_KERNELS", archive_.c_str(), 1);
  const GeneratorOptions options{.nvrtc_library = directory_ / "nowhere.so"};
  record(problem_of(4096), tile(128, 64), 10.0);
  EXPECT_EQ(export_kernels(store_, cubins_with(options), exported_).kernels.size(), 1U);
  record(problem_of(4096), tile(64, 64), 5.0);
  const Error error = error_of([&] { export_kernels(store_, cubins_with(options), exported_); });
  EXPECT_EQ(error.code(), ErrorCode::no_nvrtc);
  EXPECT_THAT(error.what(), HasSubstr("has no kernel for"));
}

}  // namespace
}  // namespace swr
