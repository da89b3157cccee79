// SPDX-License-Identifier: MIT
// Softmax as an operation: its space, its kernels on three chips, its model, and how it is stored,
// looked up, launched by programs and carried by packages. The driver is a fake one.
#include "operations/softmax/softmax.h"

#include "driver/cuda_driver.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "model/streaming_predictor.h"
#include "tests/generator/chips.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include <swr/error.h>

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <random>

namespace swr {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const SoftmaxProblem kWide{.rows = 4096, .columns = 65536};
const SoftmaxProblem kNarrow{.rows = 4096, .columns = 1000};

TEST(SoftmaxSpace, HoldsEveryLegalChoiceOnce) {
  const SearchSpace narrow = enumerate_space(kNarrow, device_of(90), {});
  EXPECT_GT(narrow.variants.size(), 100U);
  bool any_held = false;
  for (const Variant& one : narrow.variants) {
    EXPECT_EQ(std::ranges::count(narrow.variants, one), 1) << to_key(one);
    any_held = any_held || one.as<SoftmaxVariant>().held > 0;
  }
  EXPECT_TRUE(any_held);
  const SoftmaxProblem unaligned{.rows = 8, .columns = 1000, .alignment_bytes = 2};
  for (const Variant& one : enumerate_space(unaligned, device_of(90), {}).variants) {
    EXPECT_EQ(one.as<SoftmaxVariant>().vector, 1);
  }
}

TEST(SoftmaxSpace, SaysWhyAVariantIsDropped) {
  const std::pair<SoftmaxVariant, std::string> dropped[] = {
      {{.threads_per_row = 48}, "whole_warps"},
      {{.tile_rows = 8, .threads_per_row = 256}, "threads"},
      {{.vector = 3}, "vector_width"},
      {{.threads_per_row = 32, .vector = 8, .held = 3}, "held_row"},
      {{.vector = 4, .stages = 2}, "ring"},
      {{.vector = 8, .held = 1, .order = Order::sawtooth}, "second_reading"},
  };
  for (const auto& [variant, constraint] : dropped) {
    const auto found = check_constraints(kNarrow, variant, device_of(90));
    ASSERT_TRUE(found) << to_key(variant);
    EXPECT_EQ(found->constraint, constraint) << found->reason;
  }
  for (const SoftmaxProblem& problem : {kWide, kNarrow}) {
    EXPECT_FALSE(check_constraints(problem, default_variant(Problem(problem), device_of(80)),
                                   device_of(80)));
  }
}

TEST(SoftmaxProblem, RefusesWhatNoKernelServes) {
  for (const SoftmaxProblem& wrong : {SoftmaxProblem{.rows = 0}, SoftmaxProblem{.columns = 1 << 25},
                                      SoftmaxProblem{.alignment_bytes = 12}}) {
    EXPECT_THROW(validate(Problem(wrong)), Error);
  }
  EXPECT_EQ(to_string(Problem(kNarrow)), "softmax rows4096 columns1000 fp16");
}

TEST(SoftmaxKernel, DrawnVariantsCompileCleanForThreeChips) {
  const Generator generator({});
  std::mt19937 random(5);
  for (const int sm_arch : {80, 90, 121}) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      const SoftmaxProblem problem{.rows = 4096, .columns = 5000, .dtype = dtype};
      std::vector<Variant> space = enumerate_space(problem, device_of(sm_arch), {}).variants;
      std::ranges::shuffle(space, random);
      space.resize(6);
      for (const Variant& variant : space) {
        const CompiledKernel kernel = generator.compile(problem, variant, sm_arch);
        EXPECT_EQ(kernel.entry, "swr_softmax");
        EXPECT_EQ(kernel.sm_arch, sm_arch);
        EXPECT_FALSE(check_compiled(problem, variant, device_of(sm_arch), kernel.resources))
            << to_key(variant);
      }
    }
  }
  EXPECT_GT(
      generator.compile_template("softmax/reference.cu", "swr_softmax_compare", 90).cubin.size(),
      0U);
}

TEST(SoftmaxModel, StackDistancesSayWhatASecondReadingMisses) {
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 100.0), 1.0);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 150.0), 0.5);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 200.0), 0.0);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, true, 100.0), 0.5);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, true, 200.0), 0.0);
}

TEST(SoftmaxModel, SawtoothSparesMissesAndHeldRowsASecondReading) {
  const auto model = softmax_operation().make_predictor(load_profile("gb10"));
  const SoftmaxVariant cyclic{.tile_rows = 4, .vector = 8};
  SoftmaxVariant sawtooth = cyclic;
  sawtooth.order = Order::sawtooth;
  const auto predict = [&](const SoftmaxProblem& problem, const SoftmaxVariant& variant) {
    return model->predict(problem, variant, {}, 1);
  };
  const Prediction there = predict(kWide, cyclic);
  const Prediction back = predict(kWide, sawtooth);
  // 48 SMs with 4 rows of 128 KiB each against 24 MiB: the footprint just fits.
  EXPECT_EQ(there.compulsory_misses, 2LL * 4096 * 65536 * 2 / 32);
  EXPECT_GT(there.excess_misses, back.excess_misses);
  EXPECT_GT(there.time_us, back.time_us);
  const SoftmaxVariant held{.tile_rows = 4, .threads_per_row = 128, .vector = 8, .held = 1};
  const Prediction once = predict(kNarrow, held);
  EXPECT_EQ(once.excess_misses, 0);
  EXPECT_EQ(once.read_sectors, 4096 * 1000 * 2 / 32);
  EXPECT_LE(once.time_us, predict(kNarrow, cyclic).time_us);
}

/// As programs without a header of the operation pose a problem.
Problem posed(int rows, int columns) {
  Problem problem = Problem::zeroed(find_operation("softmax"));
  for (const ProblemField& field : fields(problem.operation())) {
    field.write(problem.members(), field.name == "rows"      ? rows
                                   : field.name == "columns" ? columns
                                                             : field.usual);
  }
  return problem;
}

class SoftmaxServing : public ServingTest {
 protected:
  void SetUp() override {
    record(kNarrow, kHeld, 5.0);
    record(kNarrow, kStreamed, 7.0);
    record(kWide, kStreamed, 90.0);
  }

  const SoftmaxVariant kHeld{.tile_rows = 4, .threads_per_row = 128, .vector = 8, .held = 1};
  const SoftmaxVariant kStreamed{.threads_per_row = 256,
                                 .vector = 8,
                                 .stages = 4,
                                 .order = Order::sawtooth,
                                 .persistence = Persistence::persistent};
  PrimaryContext context_{0};
};

TEST_F(SoftmaxServing, IsLookedUpByTheNearestShapeThatIsLegal) {
  const Lookup lookup(database_);
  EXPECT_EQ(lookup.best(posed(4096, 1000), device_).variant, Variant(kHeld));
  EXPECT_EQ(lookup.best(posed(4096, 1000), device_).level, MatchLevel::exact);
  EXPECT_EQ(lookup.best(posed(5000, 900), device_).variant, Variant(kHeld));
  EXPECT_EQ(lookup.best(posed(5000, 900), device_).level, MatchLevel::nearest);
  EXPECT_EQ(lookup.best(posed(4096, 1100), device_).variant, Variant(kStreamed))
      << "1024 columns at most are held";
}

TEST_F(SoftmaxServing, ProgramsLaunchItThroughTheRuntime) {
  Runtime runtime({.database = database_, .exported = export_all(), .may_compile = false});
  void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
  const SoftmaxParams params{memory, memory, 1000, 1000, 4095, 1000};
  runtime.launch(posed(4095, 1000), &params, memory, nullptr);
  EXPECT_STREQ(fake_last_softmax(),
               "grid 1024 block 512 smem 128 rows 4095 columns 1000 strides 1000 1000");
}

TEST_F(SoftmaxServing, AreCarriedByAPackageThatBuildsOutside) {
  const std::filesystem::path package = directory_ / "package";
  const std::filesystem::path build = directory_ / "build";
  export_package(store_, key_as_cubin, package, "my_kernels", {});
  const auto run = [&](const std::string& command) {
    EXPECT_EQ(std::system((command + " > " + (directory_ / "log").string() + " 2>&1").c_str()), 0)
        << bytes_of(directory_ / "log");
    return bytes_of(directory_ / "log");
  };
  run("cmake -S " SWR_CONSUMER " -B " + build.string() + " -DPACKAGE_DIR=" + package.string() +
      " -Dmy_kernels_CUDA_INCLUDE_DIR=" SWR_CUDA_INCLUDE_DIR
      " -DCMAKE_CXX_FLAGS='" SWR_CONSUMER_FLAGS "'");
  run("cmake --build " + build.string());
  const std::string answers =
      run("printf '4096 1000 1000\\n3 900 1000\\n64 50000 50000\\n3 1000 1001\\n0 5 8\\n' | "
          "LD_LIBRARY_PATH=" SWR_FAKE_DRIVER " " +
          (build / "softmax_consumer").string());
  std::istringstream lines(answers);
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  EXPECT_THAT(next(), ::testing::AllOf(StartsWith("softmax_rows4096_columns1000_fp16"),
                                       HasSubstr("grid 1024 block 512 smem 128 rows 4096")));
  EXPECT_THAT(next(), HasSubstr("grid 1 block 512 smem 128 rows 3 columns 900"));
  EXPECT_THAT(next(), ::testing::AllOf(StartsWith("softmax_rows4096_columns65536_fp16"),
                                       HasSubstr("grid 64 block 256")));
  EXPECT_THAT(next(), StartsWith("error 2 no kernel of this package fits sizes 3 1000"));
  EXPECT_THAT(next(), StartsWith("error 0 softmax needs rows and columns"));
}

}  // namespace
}  // namespace swr
