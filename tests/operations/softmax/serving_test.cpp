// SPDX-License-Identifier: MIT
// Softmax as programs use it: looked up, launched by the runtime and carried by packages. The
// driver is a fake one.
#include "tests/runtime/serving.h"

#include "driver/cuda_driver.h"
#include "operations/softmax/softmax.h"
#include "tests/export/built_package.h"
#include "tests/runtime/fake_driver/fake_driver.h"

namespace swr {
namespace {

const SoftmaxProblem kWide{.rows = 4096, .columns = 65536};
const SoftmaxProblem kNarrow{.rows = 4096, .columns = 1000};

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
    record(SoftmaxProblem{.rows = 4096, .columns = 2000}, kStreamed, 8.0);
    record(kWide, kStreamed, 90.0);
  }

  const SoftmaxVariant kHeld{.tile_rows = 4, .threads_per_row = 128, .vector = 8, .held = 1};
  const SoftmaxVariant kStreamed{.threads_per_row = 64,
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
  RuntimeOptions options{.database = database_, .exported = export_all(), .may_compile = false};
  Runtime runtime(options);
  void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
  const SoftmaxParams params{memory, memory, 1000, 1000, 4095, 1000};
  runtime.launch(posed(4095, 1000), &params, memory, nullptr);
  EXPECT_STREQ(fake_last_softmax(),
               "grid 1024 block 512 smem 128 rows 4095 columns 1000 strides 1000 1000");
}

TEST_F(SoftmaxServing, AreCarriedByAPackageThatBuildsOutside) {
  const std::filesystem::path package = directory_ / "package";
  export_package(store_, key_as_cubin, package, "my_kernels", {});
  const auto answers =
      test::BuiltPackage(package, directory_)
          .ask("softmax", "4096 1000 1000\n3 900 1000\n64 50000 50000\n3 1000 1001\n0 5 8\n");
  ASSERT_THAT(answers, SizeIs(5));
  EXPECT_THAT(answers[0], AllOf(StartsWith("softmax_rows4096_columns1000_fp16"),
                                HasSubstr("grid 1024 block 512 smem 128 rows 4096")));
  EXPECT_THAT(answers[1], HasSubstr("grid 1 block 512 smem 128 rows 3 columns 900"));
  EXPECT_THAT(answers[2], AllOf(StartsWith("softmax_rows4096_columns65536_fp16"),
                                HasSubstr("grid 64 block 64")));
  EXPECT_THAT(answers[3], StartsWith("error 2 no kernel of this package fits sizes 3 1000"));
  EXPECT_THAT(answers[4], StartsWith("error 0 softmax needs rows and columns"));
}

}  // namespace
}  // namespace swr
