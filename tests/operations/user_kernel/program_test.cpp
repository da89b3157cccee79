// SPDX-License-Identifier: MIT
// The kernels of examples/kernels through the program: their spaces as published, and their
// variants compiled for two chips.
#include "core/json.h"
#include "tests/tuner/cli/program_fixture.h"

namespace swr {
namespace {

const std::filesystem::path kExamples = SWR_KERNEL_EXAMPLES;

using test::Arguments;
using KernelExamples = test::ProgramFixture;
using KernelCommand = test::ProgramFixture;
using KernelTunerCache = test::ProgramFixture;

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

TEST_F(KernelExamples, HaveTheSpacesThatWerePublished) {
  for (const Published& published : kPublished) {
    const auto result = result_of("kernel " + (kExamples / published.file).string() +
                                  " --enumerate --json --quiet --gpu h200");
    ASSERT_EQ(result.exit_code, 0) << published.file << result.err;
    const Json space = Json::parse(result.out)["spaces"][0];
    EXPECT_EQ(space["points"], published.points) << published.file;
    EXPECT_EQ(space["legal"], published.legal) << published.file;
  }
}

/// One author's space of hotspot has blocks_per_sm, another's has not.
TEST_F(KernelExamples, HaveThePartsThatOthersPublished) {
  const auto space_of = [&](const char* file, const Arguments& axes) {
    return json_of("kernel " + (kExamples / file).string() + " --enumerate --quiet --gpu h200" +
                   axes)["spaces"][0];
  };
  const auto hotspot = space_of("hotspot.json", "--axis blocks_per_sm=0");
  EXPECT_EQ(hotspot["points"], 4440000);
  EXPECT_EQ(hotspot["legal"], 82984);
  const auto rotation =
      space_of("rotation.json",
               "--axis block_size_x=16,32 --axis block_size_y=16,32 --axis tile_size_x=1 "
               "--axis tile_size_y=1 --axis vector=1");
  EXPECT_EQ(rotation["points"], 4);
  EXPECT_EQ(rotation["legal"], 4);
}

TEST_F(KernelExamples, AreAllHere) {
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

TEST_F(KernelExamples, CompileForTwoChips) {
  for (const Published& published : kPublished) {
    for (const char* const gpu : {"h200", "gb10"}) {
      const auto result = result_of("kernel " + (kExamples / published.file).string() +
                                    " --compile-only --quiet --gpu " + gpu);
      EXPECT_EQ(result.exit_code, 0) << published.file << " " << gpu << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr("registers")) << published.file;
    }
  }
}

TEST_F(KernelCommand, NamesWhatIsMisspelt) {
  const std::string spec = (kExamples / "vector_add.json").string();
  EXPECT_THAT(result_of("kernel " + spec + " --enumerate --gpu h200 --arg m=4").err,
              HasSubstr("the kernel has no size 'm'; its sizes are n"));
  EXPECT_THAT(result_of("kernel " + spec + " --enumerate --gpu h200 --axis block=4").err,
              HasSubstr("its parameters are block_size_x"));
  const auto predicted = result_of("kernel " + spec + " --gpu gb10");
  EXPECT_EQ(predicted.exit_code, 2);
  EXPECT_THAT(predicted.err, HasSubstr("there is no model of kernels of users"));
  const std::string plan = run("kernel " + spec + " --gpu gb10 --dry-run");
  EXPECT_THAT(plan, HasSubstr("would be measured: "));
  EXPECT_THAT(result_of("kernel absent.json --enumerate --gpu h200").err, HasSubstr("absent.json"));
}

TEST_F(KernelCommand, RefusesAPeerWhereNothingIsTimed) {
  const std::string kernel = "kernel " + (kExamples / "vector_add.json").string() + " --gpu h200 ";
  for (const char* const untimed : {"--compile-only", "--enumerate", "--dry-run"}) {
    const auto result = result_of(kernel + untimed + " --against torch");
    EXPECT_EQ(result.exit_code, 2) << untimed;
    EXPECT_THAT(result.err, HasSubstr("--against times a call")) << untimed;
  }
}

/// Before anything is looked for on a GPU, in every form that a spec has.
TEST_F(KernelCommand, RefusesAnObjectiveThatIsNotKnown) {
  std::filesystem::copy_file(kExamples / "vector_add.cu", dir_ / "vector_add.cu");
  Json spec = Json::parse(bytes_of(kExamples / "vector_add.json"));
  spec["objective"] = "enrgy";
  std::ofstream(dir_ / "vector_add.json") << spec;
  std::string annotated = bytes_of(kExamples / "vector_add_annotated.cu");
  annotated.insert(annotated.find("#pragma"), "#pragma swr objective(enrgy)\n");
  std::ofstream(dir_ / "annotated.cu") << annotated;
  for (const char* const file : {"vector_add.json", "annotated.cu"}) {
    const auto result = result_of("kernel " + path(file) + " --enumerate --gpu h200");
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_THAT(result.err, HasSubstr("objective 'enrgy': it is no objective and no metric; did "
                                      "you mean 'energy'?"))
        << file;
  }
}

/// Without a GPU, before a run waits for it.
TEST_F(KernelCommand, CompilesTheReferenceToo) {
  for (const char* const file : {"matmul.json", "matmul.cu"}) {
    std::filesystem::copy_file(kExamples / file, dir_ / file);
  }
  const Arguments arguments =
      "kernel " + path("matmul.json") + " --compile-only --quiet --gpu h200";
  std::ofstream(dir_ / "matmul_naive.cu") << "__global__ void no_kernel_of_that_name();\n";
  const auto broken = result_of(arguments);
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.out, HasSubstr("failed  reference"));
  std::filesystem::remove(dir_ / "matmul_naive.cu");
  std::filesystem::copy_file(kExamples / "matmul_naive.cu", dir_ / "matmul_naive.cu");
  const std::string whole = run(arguments);
  EXPECT_THAT(whole, HasSubstr("sm_90  reference  registers"));
}

TEST_F(KernelCommand, ReportsWhatDoesNotCompile) {
  const auto result = result_of("kernel " + (kExamples / "hostile.json").string() +
                                " --compile-only --quiet --gpu h200 --axis fault=6");
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

TEST_F(KernelTunerCache, IsJudgedAndStored) {
  const std::string cache = path("cache.json");
  std::ofstream(cache) << unclosed_cache("block_size_x");
  const Arguments of_what =
      "--spec " + (kExamples / "vector_add.json").string() + " --arg n=1000 --gpu h200";
  EXPECT_EQ(json_of("judge --replay " + cache + of_what)["spaces"][0]["variants"], 13);
  EXPECT_THAT(result_of("judge --replay " + cache + of_what + " --gpu h100").err,
              HasSubstr("measured on \"NVIDIA H200\"; its times are taken for NVIDIA H100"));
  EXPECT_EQ(result_of("judge --replay " + cache + of_what).err, "");
  EXPECT_THAT(run("db import --from " + cache + of_what),
              HasSubstr("stored 13 variants of vector_add n=1000 on NVIDIA H200"));
  EXPECT_THAT(run("query --json" + of_what), HasSubstr("200.0"));
}

TEST_F(KernelTunerCache, OfAnotherKernelIsRefused) {
  const std::string cache = path("cache.json");
  const auto error_with = [&](const std::string& parameter, const std::string& spec) {
    std::ofstream(cache, std::ios::trunc) << unclosed_cache(parameter);
    return result_of("db import --gpu h200 --from " + cache + " --spec " +
                     (kExamples / spec).string())
        .err;
  };
  EXPECT_THAT(error_with("tile", "vector_add.json"), HasSubstr("has no parameter \"tile\""));
  EXPECT_THAT(error_with("block_size_x", "spmv.json"), HasSubstr("cache.json"));
  EXPECT_THAT(result_of("db import --from " + cache).err,
              HasSubstr("it is a cache of Kernel Tuner"));
}

TEST_F(KernelTunerCache, IsComparedWithTheSpecAndTheSizes) {
  const std::string cache = path("cache.json");
  const auto import_with = [&](const std::string& what, const std::string& other,
                               const std::string& sizes) {
    std::string text = unclosed_cache("block_size_x");
    text.replace(text.find(what), what.size(), other);
    std::ofstream(cache, std::ios::trunc) << text;
    return result_of("db import --gpu h200 --from " + cache + " --spec " +
                     (kExamples / "vector_add.json").string() + sizes);
  };
  const auto other_name = import_with("vector_add", "math::copy<float>", " --arg n=1000");
  EXPECT_EQ(other_name.exit_code, 2);
  EXPECT_THAT(other_name.err, HasSubstr("it is of the kernel \"math::copy<float>\", and the spec "
                                        "of vector_add"));
  EXPECT_EQ(import_with("vector_add", "math::vector_add<float>", " --arg n=1000").err, "");
  // The usual size of the spec is not the cache's.
  const auto no_size = import_with("cache", "cache", "");
  EXPECT_EQ(no_size.exit_code, 2);
  EXPECT_THAT(no_size.err, HasSubstr("problem size is 1000, and the problem is vector_add n="));
  EXPECT_THAT(no_size.err, HasSubstr("--arg"));
  // Whoever says the sizes may know better what the cache counts.
  const auto other_size = import_with("1000", "[250, 1]", " --arg n=1000");
  EXPECT_EQ(other_size.exit_code, 0);
  EXPECT_THAT(other_size.err, HasSubstr("note: the cache says that its problem size is [250,1]"));
  EXPECT_EQ(import_with("1000", "[1000, 1]", " --arg n=1000").err, "");
  EXPECT_THAT(import_with("1000", "\"callable\"", " --arg n=1000").err, HasSubstr("\"callable\""));
  const auto foreign =
      import_with("\"block_size_x\": 192", "\"block_size_x\": 200", " --arg n=1000");
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("block_size_x has no value 200"));
}

}  // namespace
}  // namespace swr
