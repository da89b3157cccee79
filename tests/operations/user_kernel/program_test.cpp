// SPDX-License-Identifier: MIT
// The kernels of examples/kernels through the program: their spaces as published, and their
// variants compiled for two chips.
#include "tests/tuner/cli/program.h"

#include "core/json.h"
#include "tests/support/test.h"

namespace swr {
namespace {

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
  const auto plan = run(directory, {"kernel", spec, "--gpu", "gb10", "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("would be measured: "));
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

/// As Kernel Tuner leaves one that was killed: without its end, and with half a row.
std::string unclosed_cache(const std::string& parameter) {
  std::string text = R"({"device_name": "NVIDIA H200", "kernel_name": "vector_add",
"problem_size": 1000, "tune_params_keys": [")" +
                     parameter + R"("], "tune_params": {}, "objective": "time", "cache": {)";
  for (int block = 128; block <= 896; block += 64) {
    const std::string value = std::to_string(block);
    text += "\n\"" + value + "\": {\"" + parameter + "\": " + value + ", ";
    text += block == 192   ? R"("time": "CompilationFailedConfig")"
            : block == 256 ? R"("time": 0.5, "__error__": "RuntimeFailedConfig")"
                           : R"("time": 0.2, "times": [0.1, 0.2, 0.3], "nvml_energy": 0.004)";
    text += "},";
  }
  return text + "\n\"960\": {\"" + parameter + "\": 96";
}

TEST(KernelTunerCache, IsJudgedAndStored) {
  const TempDirectory directory;
  const std::string cache = (directory / "cache.json").string();
  std::ofstream(cache) << unclosed_cache("block_size_x");
  const std::vector<std::string> of_what{
      "--spec", (kExamples / "vector_add.json").string(), "--arg", "n=1000", "--gpu", "h200"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), of_what.begin(), of_what.end());
    return run(directory, arguments);
  };
  const auto judged = with({"judge", "--replay", cache, "--json"});
  ASSERT_EQ(judged.exit_code, 0) << judged.err;
  EXPECT_EQ(Json::parse(judged.out)["spaces"][0]["variants"], 13);
  const auto stored = with({"db", "import", "--from", cache});
  ASSERT_EQ(stored.exit_code, 0) << stored.err;
  EXPECT_THAT(stored.out, HasSubstr("stored 13 variants of vector_add n=1000 on NVIDIA H200"));
  const auto found = with({"query", "--json"});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("200.0"));
}

TEST(KernelTunerCache, OfAnotherKernelIsRefused) {
  const TempDirectory directory;
  const std::string cache = (directory / "cache.json").string();
  const std::vector<std::string> import{"db", "import", "--from", cache, "--gpu", "h200", "--spec"};
  const auto error_with = [&](const std::string& parameter, const std::string& spec) {
    std::ofstream(cache, std::ios::trunc) << unclosed_cache(parameter);
    std::vector<std::string> arguments = import;
    arguments.push_back((kExamples / spec).string());
    return run(directory, arguments).err;
  };
  EXPECT_THAT(error_with("tile", "vector_add.json"), HasSubstr("has no parameter \"tile\""));
  EXPECT_THAT(error_with("block_size_x", "spmv.json"), HasSubstr("cache.json"));
  EXPECT_THAT(run(directory, {"db", "import", "--from", cache}).err,
              HasSubstr("it is a cache of Kernel Tuner"));
}

}  // namespace
}  // namespace swr
