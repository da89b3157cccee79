// SPDX-License-Identifier: MIT
// The kernels of examples/kernels through the program: their spaces as published, and their
// variants compiled for two chips.
#include "tests/tuner/cli/program.h"

#include "core/json.h"
#include "tests/support/temp_directory.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace swr {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kExamples = SWR_KERNEL_EXAMPLES;

test::ProgramResult run(const TempDirectory& directory, const std::vector<std::string>& arguments) {
  return test::Program(arguments,
                       {"HOME=" + directory.path().string(),
                        "SWR_CACHE_DIR=" + (directory / "cache").string(),
                        "SWR_DB=" + (directory / "tuned.db").string()},
                       directory.path())
      .finish();
}

struct Published {
  const char* file;
  long long points;
  long long legal;
};

/// Points and those that satisfy the conditions, as the tuning files that the examples follow have
/// them.
constexpr Published kPublished[] = {{"vector_add.json", 15, 15},
                                    {"vector_add_annotated.cu", 72, 57},
                                    {"convolution.json", 10240, 4362},
                                    {"dedispersion.json", 22272, 11130},
                                    {"pnpoly.json", 4092, 4092},
                                    {"gemm.json", 20736, 10312},
                                    {"reduction.json", 2376, 2376},
                                    {"spmv.json", 128, 128},
                                    {"nbody.json", 3136, 1568},
                                    {"matmul.json", 480, 230},
                                    {"hotspot.json", 22200000, 349853},
                                    {"bicg.json", 10752, 8192},
                                    {"sort.json", 324, 45},
                                    {"expdist.json", 960, 960},
                                    {"rotation.json", 1008, 540},
                                    {"hostile.json", 504, 64}};

TEST(KernelExamples, HaveTheSpacesThatWerePublished) {
  const TempDirectory directory;
  for (const Published& published : kPublished) {
    const auto result = run(directory, {"kernel", (kExamples / published.file).string(),
                                        "--enumerate", "--json", "--quiet", "--gpu", "h200"});
    ASSERT_EQ(result.exit_code, 0) << published.file << result.err;
    const Json space = Json::parse(result.out)["spaces"][0];
    EXPECT_EQ(space["points"], published.points) << published.file;
    EXPECT_EQ(space["legal"], published.legal) << published.file;
  }
}

/// One author's space of hotspot has blocks_per_sm, another's has not.
TEST(KernelExamples, HaveThePartsThatOthersPublished) {
  const TempDirectory directory;
  const auto space_of = [&](const char* file, std::vector<std::string> axes) {
    axes.insert(axes.begin(), {"kernel", (kExamples / file).string(), "--enumerate", "--json",
                               "--quiet", "--gpu", "h200"});
    const auto result = run(directory, axes);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out)["spaces"][0];
  };
  const Json hotspot = space_of("hotspot.json", {"--axis", "blocks_per_sm=0"});
  EXPECT_EQ(hotspot["points"], 4440000);
  EXPECT_EQ(hotspot["legal"], 82984);
  const Json rotation = space_of(
      "rotation.json", {"--axis", "block_size_x=16,32", "--axis", "block_size_y=16,32", "--axis",
                        "tile_size_x=1", "--axis", "tile_size_y=1", "--axis", "vector=1"});
  EXPECT_EQ(rotation["points"], 4);
  EXPECT_EQ(rotation["legal"], 4);
}

TEST(KernelExamples, AreAllHere) {
  std::set<std::string> known;
  for (const Published& published : kPublished) {
    known.insert(published.file);
  }
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json")) {
      EXPECT_TRUE(known.contains(name)) << name << " has no count of its space";
    }
  }
}

TEST(KernelExamples, CompileForTwoChips) {
  const TempDirectory directory;
  for (const Published& published : kPublished) {
    for (const char* const gpu : {"h200", "gb10"}) {
      const auto result = run(directory, {"kernel", (kExamples / published.file).string(),
                                          "--compile-only", "--quiet", "--gpu", gpu});
      EXPECT_EQ(result.exit_code, 0) << published.file << " " << gpu << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr("registers")) << published.file;
    }
  }
}

TEST(KernelCommand, NamesWhatIsMisspelt) {
  const TempDirectory directory;
  const std::string spec = (kExamples / "vector_add.json").string();
  EXPECT_THAT(run(directory, {"kernel", spec, "--enumerate", "--gpu", "h200", "--arg", "m=4"}).err,
              HasSubstr("the kernel has no size 'm'; its sizes are n"));
  EXPECT_THAT(
      run(directory, {"kernel", spec, "--enumerate", "--gpu", "h200", "--axis", "block=4"}).err,
      HasSubstr("its parameters are block_size_x"));
  const auto predicted = run(directory, {"kernel", spec, "--gpu", "gb10"});
  EXPECT_EQ(predicted.exit_code, 2);
  EXPECT_THAT(predicted.err, HasSubstr("there is no model of kernels of users"));
  EXPECT_THAT(run(directory, {"kernel", "absent.json", "--enumerate", "--gpu", "h200"}).err,
              HasSubstr("absent.json"));
}

/// Before anything is looked for on a GPU, in every form that a spec has.
TEST(KernelCommand, RefusesAnObjectiveThatIsNotKnown) {
  const TempDirectory directory;
  const auto text_of = [](const char* file) {
    std::ifstream in(kExamples / file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::filesystem::copy_file(kExamples / "vector_add.cu", directory / "vector_add.cu");
  Json spec = Json::parse(text_of("vector_add.json"));
  spec["objective"] = "enrgy";
  std::ofstream(directory / "vector_add.json") << spec;
  std::string annotated = text_of("vector_add_annotated.cu");
  annotated.insert(annotated.find("#pragma"), "#pragma swr objective(enrgy)\n");
  std::ofstream(directory / "annotated.cu") << annotated;
  for (const char* const file : {"vector_add.json", "annotated.cu"}) {
    const auto result =
        run(directory, {"kernel", (directory / file).string(), "--enumerate", "--gpu", "h200"});
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_THAT(result.err, HasSubstr("objective 'enrgy': it is no objective and no metric; did "
                                      "you mean 'energy'?"))
        << file;
  }
}

/// Without a GPU, before a run waits for it.
TEST(KernelCommand, CompilesTheReferenceToo) {
  const TempDirectory directory;
  for (const char* const file : {"matmul.json", "matmul.cu"}) {
    std::filesystem::copy_file(kExamples / file, directory / file);
  }
  const std::vector<std::string> arguments{
      "kernel", (directory / "matmul.json").string(), "--compile-only", "--quiet", "--gpu", "h200"};
  std::ofstream(directory / "matmul_naive.cu") << "__global__ void no_kernel_of_that_name();\n";
  const auto broken = run(directory, arguments);
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.out, HasSubstr("failed  reference"));
  std::filesystem::remove(directory / "matmul_naive.cu");
  std::filesystem::copy_file(kExamples / "matmul_naive.cu", directory / "matmul_naive.cu");
  const auto whole = run(directory, arguments);
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("sm_90  reference  registers"));
}

TEST(KernelCommand, ReportsWhatDoesNotCompile) {
  const TempDirectory directory;
  const auto result =
      run(directory, {"kernel", (kExamples / "hostile.json").string(), "--compile-only", "--quiet",
                      "--gpu", "h200", "--axis", "fault=6"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("this variant does not compile"));
}

}  // namespace
}  // namespace swr
