// SPDX-License-Identifier: MIT
// Reading specs: what is understood, and the one clear error for everything that is refused.
#include "kernel_spec/spec/argument_data.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "tests/support/test.h"
#include "tests/support/waiting.h"
#include <swr/kernel_spec.h>

#include <nlohmann/json.hpp>

#include <sys/stat.h>

namespace swr::kernel_spec {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSource = "__global__ void f(float* y, int n) { y[0] = n; }\n";

Json small() {
  return Json::parse(R"json({
    "swr_kernel": 1, "name": "small", "source": "f.cu", "entry": "f",
    "problem": {"n": 100}, "parameters": {"block_size_x": [32, 64]},
    "block": "block_size_x", "grid": "div_ceil(n, block_size_x)",
    "arguments": [{"name": "y", "type": "float*", "size": "n", "output": true},
                  {"name": "n", "type": "int", "value": "n"}]})json");
}

class Spec : public ::testing::Test {
 protected:
  Spec() { directory_.write("spec/f.cu", kSource); }

  KernelSpec read(const std::string& text, const char* name = "spec/k.json") const {
    return read_kernel_spec(directory_.write(name, text));
  }
  KernelPlan planned(const Json& json) const { return KernelPlan(read(json.dump())); }
  KernelProgram program_of(const Json& json) const {
    const KernelPlan plan = planned(json);
    Point point;
    plan.fill(point, std::vector{1000}, plan.usual_choice());
    return plan.program(point, plan.usual_choice());
  }
  std::string refusal(const Json& json, ErrorCode code = ErrorCode::invalid_argument) const {
    return message_of(code, [&] { planned(json); });
  }

  TempDirectory directory_;
};

TEST_F(Spec, ReadsItsOwnForm) {
  const KernelPlan plan = planned(small());
  EXPECT_EQ(plan.spec().name, "small");
  EXPECT_EQ(plan.spec().source, kSource);
  Point point;
  plan.fill(point, std::vector{1000}, std::vector{1});
  const PlannedLaunch launch = plan.launch(plan.steps().front(), point);
  EXPECT_EQ(launch.grid[0], 16U);
  EXPECT_EQ(launch.block[0], 64U);
  EXPECT_EQ(plan.elements(plan.arguments()[0], point), 1000);
}

TEST_F(Spec, ReplacesParametersInTemplateArguments) {
  Json json = small();
  json["entry"] = "f<float, block_size_x * 2>";
  const KernelPlan plan = planned(json);
  Point point;
  plan.fill(point, std::vector{1000}, std::vector{1});
  const KernelProgram program = plan.program(point, std::vector{1});
  EXPECT_THAT(program.kernels, ElementsAre("f<float, 64 * 2>"));
  EXPECT_EQ(program.text.find("#define block_size_x"), std::string::npos);
}

TEST_F(Spec, DigestsEverythingThatResultsDependOn) {
  const std::string digest = planned(small()).digest();
  Json usual = small();
  usual["problem"]["n"] = 200;
  EXPECT_EQ(planned(usual).digest(), digest) << "a usual size is only a default";
  Json tolerant = small();
  tolerant["tolerance"]["relative"] = 0.5;
  EXPECT_NE(planned(tolerant).digest(), digest);
  directory_.write("spec/f.cu", std::string(kSource) + "// changed");
  EXPECT_NE(planned(small()).digest(), digest);
}

TEST_F(Spec, NamesItsObjectiveOnWhichResultsDoNotDepend) {
  EXPECT_EQ(planned(small()).spec().objective, "");
  Json json = small();
  json["objective"] = "energy_mj * time_us";
  EXPECT_EQ(planned(json).spec().objective, "energy_mj * time_us");
  EXPECT_EQ(planned(json).digest(), planned(small()).digest());
  json["objective_higher_is_better"] = true;
  EXPECT_EQ(planned(json).spec().objective, "1 / (energy_mj * time_us)");
  json["objective"] = "energy_mj *";
  EXPECT_THAT(refusal(json), HasSubstr("objective"));
  json["objective"] = "edp";
  EXPECT_THAT(refusal(json), HasSubstr("objective 'edp': it is better small"));
  json.erase("objective");
  EXPECT_THAT(refusal(json), HasSubstr("objective_higher_is_better: it needs 'objective'"));
}

/// In every form that a spec has, and for specs that a program makes.
TEST_F(Spec, RefusesObjectivesThatAreNotKnown) {
  Json json = small();
  json["objective"] = "enrgy";
  EXPECT_EQ(refusal(json),
            "k.json: objective 'enrgy': it is no objective and no metric; did you mean 'energy'?");
  json["objective"] = "time_us * registres";
  EXPECT_THAT(refusal(json), HasSubstr("did you mean 'registers'?"));
  json["objective"] = "time_us / (2 - 2)";
  EXPECT_THAT(refusal(json), HasSubstr("zero"));
  KernelSpec made = read(small().dump());
  made.objective = "eddp";
  EXPECT_EQ(message_of(ErrorCode::invalid_argument, [&] { const KernelPlan plan(made); }),
            "small: objective 'eddp': it is no objective and no metric; did you mean 'edp'?");
}

TEST_F(Spec, NamesTheNearestOfAnUnknownKey) {
  Json json = small();
  json["paramters"] = 1;
  EXPECT_THAT(refusal(json), HasSubstr("unknown key 'paramters'; did you mean 'parameters'?"));
}

TEST_F(Spec, RefusesWholeNumbersBeyond64Bits) {
  std::string text = small().dump();
  text.replace(text.find("64"), 2, "18446744073709551616");
  EXPECT_THAT(
      message_of(ErrorCode::unreadable, [&] { read(text); }),
      HasSubstr("has the whole number 18446744073709551616, which needs more than 64 bits"));
}

TEST_F(Spec, RefusesKeysThatAreThereTwice) {
  const std::string text = small().dump();
  EXPECT_THAT(
      message_of(ErrorCode::unreadable, [&] { read(R"({"name": "a", )" + text.substr(1)); }),
      HasSubstr("name"));
}

TEST_F(Spec, RefusesWhatIsTooLongOrTooDeep) {
  EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { read(std::string((1 << 20) + 1, ' ')); }),
              HasSubstr("k.json"));
  EXPECT_THAT(message_of(ErrorCode::unreadable,
                         [&] { read(std::string(100, '[') + std::string(100, ']')); }),
              HasSubstr("k.json"));
}

TEST_F(Spec, RefusesNamesThatAreNone) {
  for (const char* const name : {"a b", "1a", "", "int", "threadIdx", "a;b", "family"}) {
    Json json = small();
    json["parameters"] = Json::object({{name, {1, 2}}});
    json["block"] = 32;
    json["grid"] = 1;
    EXPECT_THAT(refusal(json), HasSubstr(std::string("'") + name + "'")) << name;
  }
}

TEST_F(Spec, RefusesPathsThatLeaveTheFolder) {
  directory_.write("secret.cu", kSource);
  std::filesystem::create_symlink("../secret.cu", directory_ / "spec/link.cu");
  for (const std::string& path :
       {std::string("../secret.cu"), std::string("link.cu"), (directory_ / "secret.cu").string(),
        std::string("../not_there.cu"), std::string("a/../../not_there.cu"),
        std::string("/not_there.cu"), std::string("..")}) {
    Json json = small();
    json["source"] = path;
    EXPECT_THAT(refusal(json), HasSubstr("leaves the folder of its spec")) << path;
  }
  Json data = small();
  data["arguments"][0]["fill"] = "file";
  data["arguments"][0]["file"] = "../secret.cu";
  EXPECT_THAT(refusal(data), HasSubstr("leaves the folder of its spec"));
}

TEST_F(Spec, FollowsLinksWithinTheFolder) {
  std::filesystem::create_directory(directory_ / "spec/sub");
  directory_.write("spec/sub/g.cu", kSource);
  std::filesystem::create_symlink("sub/g.cu", directory_ / "spec/link.cu");
  for (const char* const path : {"link.cu", "sub/../link.cu", "sub/g.cu"}) {
    Json json = small();
    json["source"] = path;
    EXPECT_EQ(planned(json).spec().source, kSource) << path;
  }
}

TEST_F(Spec, TakesNoHeaderFromOutsideTheFolder) {
  directory_.write("secret.h", "hunter2");
  std::filesystem::create_symlink("../secret.h", directory_ / "spec/link.h");
  mkfifo((directory_ / "spec/pipe").c_str(), 0600);
  const std::string absolute = (directory_ / "secret.h").string();
  for (const std::string& name :
       {absolute, std::string("../secret.h"), std::string("x/../../secret.h"),
        std::string("link.h"), std::string("pipe"), std::string(".")}) {
    for (const char* const before : {"#include ", "#/**/include ", "#inc\\\nlude ", "#define W "}) {
      directory_.write("spec/f.cu", before + ("\"" + name) + "\"\n" + kSource);
      EXPECT_THAT(program_of(small()).headers, testing::IsEmpty()) << before << name;
    }
  }
}

TEST_F(Spec, CarriesHeadersOfItsFolder) {
  directory_.write("spec/f.cu",
                   "#include \"inner/a.h\"\n#include <cuda_fp16.h>\n// #include \"no\"\n");
  directory_.write("spec/inner/a.h", "#include \"b.h\"\n");
  directory_.write("spec/inner/b.h", "#define B 1\n");
  const auto headers = program_of(small()).headers;
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers.at("inner/a.h"), "#include \"inner/b.h\"\n");
  EXPECT_EQ(headers.at("inner/b.h"), "#define B 1\n");
}

TEST_F(Spec, EachHeaderSeesThoseOfItsOwnFolder) {
  Json json = small();
  json["source"] = "src/f.cu";
  json["include"] = {"lib/include"};
  json["defines"] = {{"CONFIG", "'\"chosen.h\"'"}};
  directory_.write("spec/src/f.cu",
                   "#include \"x/one.h\"\n#include \"y/two.h\"\n#include CONFIG\n"
                   "#if 0\n#include \"none.h\"\n#include NEVER\n#endif\n" +
                       std::string(kSource));
  directory_.write("spec/src/x/one.h", "#include \"detail.h\"\n");
  directory_.write("spec/src/y/two.h", "#include \"detail.h\"\n#include <detail.h>\n");
  directory_.write("spec/src/x/detail.h", "#include \"../y/up.h\"\n");
  directory_.write("spec/src/y/detail.h", "two\n");
  directory_.write("spec/src/y/up.h", "up\n");
  directory_.write("spec/lib/include/detail.h", "library\n");
  directory_.write("spec/src/chosen.h", "chosen\n");
  const KernelProgram program = program_of(json);
  EXPECT_THAT(program.text, HasSubstr("#include \"src/x/one.h\"\n#include \"src/y/two.h\"\n"));
  EXPECT_THAT(program.text, HasSubstr("#define CONFIG \"src/chosen.h\"\n"));
  EXPECT_EQ(program.headers.at("src/x/one.h"), "#include \"src/x/detail.h\"\n");
  EXPECT_EQ(program.headers.at("src/x/detail.h"), "#include \"src/y/up.h\"\n");
  EXPECT_EQ(program.headers.at("src/y/two.h"),
            "#include \"src/y/detail.h\"\n#include <lib/include/detail.h>\n");
  EXPECT_EQ(program.headers.size(), 7U);
}

TEST_F(Spec, IncludeNextLooksBehindTheFolderOfItsFile) {
  Json json = small();
  json["include"] = {"mine", "theirs"};
  directory_.write("spec/f.cu", "#include <config.h>\n" + std::string(kSource));
  directory_.write("spec/mine/config.h", "#include_next <config.h>\n");
  directory_.write("spec/theirs/config.h", "#include_next \"config.h\"\nconstexpr int kEnd = 1;\n");
  directory_.write("config.h", "outside\n");
  const KernelProgram program = program_of(json);
  EXPECT_EQ(program.headers.at("mine/config.h"), "#include_next <theirs/config.h>\n");
  EXPECT_THAT(program.headers.at("theirs/config.h"), HasSubstr("#include_next \"config.h\""));
  EXPECT_EQ(program.headers.size(), 2U);
}

TEST_F(Spec, TakesSourcesOf16MiB) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  std::string source = kSource;
  source.resize(kMost, ' ');
  directory_.write("spec/f.cu", source);
  EXPECT_EQ(planned(small()).spec().source.size(), kMost);
  directory_.write("spec/f.cu", source + " ");
  EXPECT_THAT(refusal(small(), ErrorCode::unreadable), HasSubstr("at most 16777216 bytes"));
}

TEST_F(Spec, SourcesAreTextWithoutAByteOrderMark) {
  const std::string mark = "\xef\xbb\xbf";
  directory_.write("spec/h.h", mark + "#pragma once\n");
  directory_.write("spec/f.cu", mark + "#include \"h.h\"\n" + kSource);
  const KernelProgram program = program_of(small());
  EXPECT_EQ(program.text.find(mark), std::string::npos);
  EXPECT_EQ(program.headers.at("h.h"), "#pragma once\n");
  directory_.write("spec/h.h", std::string("#\0p\0", 4));
  EXPECT_EQ(refusal(small(), ErrorCode::unreadable),
            "'h.h' is no source: its byte 1 is 0; save it as UTF-8, and not as UTF-16");
}

TEST_F(Spec, AParameterMayNameAHeader) {
  directory_.write("spec/a.h", "#define MINE 1\n");
  directory_.write("spec/f.cu", std::string("#include CHOSEN\n") + kSource);
  Json json = small();
  json["parameters"]["CHOSEN"] = {"\"a.h\""};
  EXPECT_TRUE(program_of(json).headers.contains("a.h"));
}

TEST_F(Spec, TextOfASpecStaysOnItsLine) {
  Json json = small();
  for (const char* const text : {"'1\n#include \"x\"'", "'1\r2'"}) {
    json["defines"] = {{"X", text}};
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { program_of(json); }),
                HasSubstr("define X: a macro is one line"));
  }
  json = small();
  json["source"] = "a\n\"b\\.cu";
  directory_.write("spec/a\n\"b\\.cu", kSource);
  EXPECT_THAT(program_of(json).text, HasSubstr("#line 1 \"a\\012\\\"b\\\\.cu\"\n__global__"));
}

TEST_F(Spec, HasOneBudgetForAllItsPoints) {
  Json json = small();
  json["parameters"]["p"] = "list(range(1, 60001))";
  const std::string heavy = "len([i for i in range(99000) if i < 0])";
  json["constraints"] = {"p + 0 * " + heavy + " > 0"};
  const auto seconds = [](const auto& work) {
    const double start = processor_s();
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, work), HasSubstr("over its points"));
    return processor_s() - start;
  };
  const KernelPlan conditions = planned(json);
  EXPECT_LT(seconds([&] { conditions.space(std::vector{100}, {}); }), 60);
  json["constraints"] = Json::array();
  json["grid"] = "1 + 0 * p + " + heavy;
  const KernelPlan launches = planned(json);
  const auto launch_all = [&] {
    for (int p = 0; p < 60000; ++p) {
      Point point;
      launches.fill(point, std::vector{100}, std::vector{0, p});
      launches.launch(launches.steps().front(), point);
    }
  };
  EXPECT_LT(seconds(launch_all), 60);
}

TEST_F(Spec, OrdinaryExpressionsNeverSpendTheBudget) {
  StepBudget budget;
  for (int i = 0; i < 10'000'000; ++i) {
    budget.take(StepBudget::kFreeSteps);
  }
  EXPECT_FALSE(budget.is_spent());
}

TEST_F(Spec, RefusesLimitsBeyondADay) {
  for (const char* const key : {"compile_limit_s", "deadline_s"}) {
    Json json = small();
    json[key] = 1e18;
    EXPECT_THAT(refusal(json), HasSubstr("at most 86400"));
    json[key] = 86400;
    EXPECT_NO_THROW(planned(json));
  }
}

TEST_F(Spec, RefusesOptionsThatReachBeyondTheKernel) {
  for (const char* const option : {"-I/etc", "--include-path=/etc", "--pre-include=/etc/hostname",
                                   "-I../x", "--options-file=x", "-D", "--std=", "-DX=\"a\"",
                                   "--device-debug", "--ptxas-options=-o=x"}) {
    Json json = small();
    json["options"] = {option};
    EXPECT_THAT(refusal(json), HasSubstr(option)) << option;
  }
  Json json = small();
  json["options"] = {"-DX=3", "--std=c++20", "--use_fast_math", "--maxrregcount=64"};
  EXPECT_EQ(planned(json).spec().options.size(), 4U);
}

TEST_F(Spec, RefusesExpressionsThatCannotBe) {
  Json json = small();
  json["grid"] = "div_ceil(m, block_size_x)";
  EXPECT_THAT(refusal(json), HasSubstr("'m'"));
  json = small();
  json["parameters"]["block_size_x"] = "__import__('os').system('true')";
  EXPECT_THAT(refusal(json), HasSubstr("parameters.block_size_x"));
  json["parameters"]["block_size_x"] = "range(10**9)";
  EXPECT_THAT(refusal(json), HasSubstr("parameters.block_size_x"));
}

TEST_F(Spec, RefusesValuesThatWouldReadAsMore) {
  for (const char* const value : {"1; system()", "a\nb", "#", "a\\"}) {
    Json json = small();
    json["parameters"]["block_size_x"] = {value};
    EXPECT_THAT(refusal(json), HasSubstr("parameter block_size_x")) << value;
  }
}

TEST_F(Spec, ValuesMayBeAnyTextOfALine) {
  Json json = small();
  json["parameters"]["SHAPE"] = {"1, 1", "{2, 2}", "", "Tile<8, 4>", "a=b", "%1"};
  const KernelPlan plan = planned(json);
  Point point;
  plan.fill(point, std::vector{10}, std::vector{0, 0});
  EXPECT_THAT(plan.program(point, std::vector{0, 0}).text, HasSubstr("#define SHAPE 1, 1\n"));
  EXPECT_THAT(plan.program(point, std::vector{0, 2}).text, HasSubstr("#define SHAPE \n"));
  std::set<std::string> keys;
  for (const std::string& value : plan.spec().parameters[1].values) {
    const std::string key = key_text(value);
    EXPECT_TRUE(keys.insert(key).second) << key;
    EXPECT_EQ(key.find_first_of(",="), key.npos) << key;
  }
  EXPECT_TRUE(keys.contains("%1%2C 1"));
  EXPECT_EQ(key_text("Tile<8>"), "Tile<8>") << "keys that were stored stay";
}

TEST_F(Spec, TemplateArgumentsAreMacrosWhereTheSourceReadsThem) {
  const auto text = [&](const std::string& source) {
    directory_.write("spec/f.cu", source);
    Json json = small();
    json["entry"] = "f<WIDTH>";
    json["parameters"]["WIDTH"] = {4, 8};
    const KernelPlan plan = planned(json);
    Point point;
    plan.fill(point, std::vector{10}, std::vector{0, 1});
    const KernelProgram program = plan.program(point, std::vector{0, 1});
    EXPECT_THAT(program.kernels, ElementsAre("f<8>"));
    return program.text;
  };
  const std::string kernel = "__global__ void f(float* y, int n) {";
  EXPECT_THAT(text("template <int W> " + kernel + " y[0] = W + WIDTH; }"),
              HasSubstr("#define WIDTH 8\n"));
  for (const std::string& source :
       {"template <int WIDTH> " + kernel + " y[0] = WIDTH; }",
        "template <int W> " + kernel + " y[0] = W; }",
        "template <typename T, int WIDTH = 3> struct S {}; template <int W> " + kernel + "}"}) {
    EXPECT_EQ(text(source).find("#define WIDTH"), std::string::npos) << source;
  }
}

TEST_F(Spec, OptionsOfOtherToolsAreReadOrNoted) {
  Json json = small();
  json["options"] = {"-O3",
                     "--std=gnu++20",
                     "-prec-div=false",
                     "--std c++11",
                     "-Wno-deprecated-gpu-targets",
                     "-I.",
                     "-I",
                     "inc",
                     "-arch sm_90",
                     "-Xptxas",
                     "-v",
                     "--maxrregcount=block_size_x",
                     "-DX=block_size_x"};
  const KernelSpec spec = read(json.dump());
  EXPECT_THAT(spec.options, ElementsAre("--std=c++20", "-prec-div=false",
                                        "--maxrregcount=block_size_x", "-DX=block_size_x"));
  EXPECT_THAT(spec.include_folders, ElementsAre("inc"));
  EXPECT_THAT(spec.notes, ElementsAre("options without effect here: -O3, --std=c++11, "
                                      "-Wno-deprecated-gpu-targets, -arch=sm_90, -Xptxas=-v"));
  const KernelPlan plan = planned(json);
  Point point;
  plan.fill(point, std::vector{10}, std::vector{1});
  EXPECT_THAT(
      plan.program(point, std::vector{1}).options,
      ElementsAre("--std=c++20", "-prec-div=false", "--maxrregcount=64", "-DX=block_size_x"));
  json["parameters"]["block_size_x"] = {"32", "many"};
  EXPECT_THAT(refusal(json), HasSubstr("'--maxrregcount=many' is not allowed"));
}

TEST_F(Spec, OptionsHaveTheirValuesWhereNvccTakesThem) {
  const auto kept = [&](std::initializer_list<const char*> options) {
    Json json = small();
    json["options"] = options;
    return read(json.dump()).options;
  };
  EXPECT_THAT(kept({"-fmad false", "--ftz", "true", "-U NDEBUG", "-D", "X=1", "-maxrregcount 64"}),
              ElementsAre("-fmad=false", "--ftz=true", "-UNDEBUG", "-DX=1", "-maxrregcount=64"));
  EXPECT_THAT(kept({"--optimize 3", "-lcublas", "-L/usr/lib", "-cudart static", "-t 0", "-m 64",
                    "-Xcompiler \"-Wall -O3\"", "--Werror all-warnings", "--default-stream",
                    "legacy", "-Xptxas -v,-warn-spills", "-Xptxas=-O3,-v"}),
              ElementsAre());
  EXPECT_THAT(kept({"-Xptxas -v,-dlcm=cg", "--ptxas-options=-O1"}),
              ElementsAre("--ptxas-options=-dlcm=cg", "--ptxas-options=-O1"));
  Json json = small();
  json["options"] = {"-I", "my inc", "--include-path=a", "-isystem b", "FAST"};
  json["parameters"]["FAST"] = {"-O1", "--use_fast_math", ""};
  EXPECT_THAT(read(json.dump()).include_folders, ElementsAre("my inc", "a", "b"));
  const KernelPlan plan = planned(json);
  Point point;
  plan.fill(point, std::vector{10}, std::vector{0, 0});
  EXPECT_THAT(plan.program(point, std::vector{0, 0}).options, ElementsAre());
  EXPECT_THAT(plan.program(point, std::vector{0, 1}).options, ElementsAre("--use_fast_math"));
  json["options"] = "--use_fast_math";
  EXPECT_THAT(read(json.dump()).options, ElementsAre("--use_fast_math")) << "one text is a list";
}

TEST_F(Spec, StandardHeadersAreThoseOfLibcuxx) {
  const auto headers = [&](const std::string& source) {
    directory_.write("spec/f.cu", source + kSource);
    const KernelPlan plan = planned(small());
    Point point;
    plan.fill(point, std::vector{10}, std::vector{0});
    return plan.program(point, std::vector{0}).headers;
  };
  EXPECT_FALSE(headers("#include <cuda_fp16.h>\n").contains("limits"));
  EXPECT_TRUE(headers("#include <cuda.h>\n").contains("stdlib.h")) << "it includes it";
  const auto found = headers("#include <limits>\n");
  EXPECT_THAT(found.at("limits"), HasSubstr("#include <cuda/std/limits>\n"));
  EXPECT_THAT(found.at("math.h"), HasSubstr("M_PI")) << "headers that others name";
  directory_.write("spec/inner.h", "#include \"stdint.h\"\n");
  EXPECT_TRUE(headers("#include \"inner.h\"\n").contains("stdint.h"));
  directory_.write("spec/math.h", "#define MINE 1\n");
  EXPECT_EQ(headers("#include \"math.h\"\n").at("math.h"), "#define MINE 1\n");
}

TEST_F(Spec, TypesHaveTheirNumbers) {
  const auto written = [](const char* type, double number) {
    const ElementType element = element_type(type);
    std::vector<std::byte> bytes(element.bytes());
    write_number(element.kind, number, bytes.data());
    unsigned bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return std::pair(bits, number_at(element.kind, bytes.data()));
  };
  EXPECT_EQ(written("half", 1.0).first, 0x3c00U);
  EXPECT_EQ(written("const __half*", -2.5), std::pair(0xc100U, -2.5));
  EXPECT_EQ(written("half", 65520.0).first, 0x7c00U) << "infinite";
  EXPECT_EQ(written("half", 65519.0).second, 65504.0);
  EXPECT_EQ(written("half", 0x1p-24), std::pair(1U, 0x1p-24)) << "the smallest";
  EXPECT_EQ(written("half", 0x1p-25).second, 0.0) << "ties to even";
  EXPECT_EQ(written("half", 1.0 + 0x1p-11).second, 1.0);
  EXPECT_EQ(written("half", 1.0 + 3 * 0x1p-11).second, 1.0 + 0x1p-9);
  EXPECT_EQ(written("__nv_bfloat16", 3.140625), std::pair(0x4049U, 3.140625));
  EXPECT_EQ(written("__nv_fp8_e4m3", 448.0), std::pair(0x7eU, 448.0));
  EXPECT_EQ(written("__nv_fp8_e4m3", 1e9).second, 448.0) << "it has no infinity";
  EXPECT_TRUE(std::isnan(written("__nv_fp8_e4m3", std::nan("")).second));
  EXPECT_EQ(written("__nv_fp8_e5m2", 57344.0), std::pair(0x7bU, 57344.0));
  EXPECT_TRUE(std::isinf(written("__nv_fp8_e5m2", 1e9).second));
  EXPECT_EQ(element_type("const half2*"), (ElementType{NumberKind::f16, 2}));
  EXPECT_EQ(element_type("cuda::std::complex<double>"), (ElementType{NumberKind::f64, 2}));
  EXPECT_EQ(element_type("const struct<24>*").bytes(), 24U);
  for (const auto& [spelt, plain] :
       {std::pair("long long unsigned int", "uint64_t"), std::pair("short int", "short"),
        std::pair("int unsigned", "uint32_t"), std::pair("signed", "int"),
        std::pair("std::ptrdiff_t", "long"), std::pair("std::complex< float >", "cuComplex"),
        std::pair("thrust::complex<cuda::std::__half>", "complex<half>"),
        std::pair("float const* __restrict", "float"),
        std::pair("const volatile float[16]", "float"), std::pair("nv_half2*", "half2"),
        std::pair("double4_32a", "double4")}) {
    EXPECT_EQ(element_type(spelt), element_type(plain)) << spelt;
  }
  EXPECT_EQ(element_type("__nv_fp8x4_e4m3"), (ElementType{NumberKind::e4m3, 4}));
  for (const char* const deep : {"const float* const*", "float**", "float*[4]"}) {
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { element_type(deep); }),
                HasSubstr("points to pointers"));
  }
  for (const char* const none :
       {"struct<0>", "struct<99999>", "struct<2", "complex<int>", "half5"}) {
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { element_type(none); }),
                HasSubstr("is no type of an argument"));
  }
}

/// Every 16-bit pattern that is a number is read and written as itself.
TEST_F(Spec, SmallNumbersRoundToThemselves) {
  for (const NumberKind kind :
       {NumberKind::f16, NumberKind::bf16, NumberKind::e4m3, NumberKind::e5m2}) {
    const std::size_t width = ElementType{.kind = kind}.bytes();
    for (unsigned bits = 0; bits < 1U << 8 * width; ++bits) {
      std::array<std::byte, 4> bytes{};
      std::memcpy(bytes.data(), &bits, sizeof bits);
      const double number = number_at(kind, bytes.data());
      if (!std::isnan(number)) {
        write_number(kind, number, bytes.data());
        ASSERT_EQ(std::memcmp(bytes.data(), &bits, width), 0) << bits;
      }
    }
  }
}

TEST_F(Spec, AParameterMayNameAType) {
  directory_.write("spec/f.cu", "__global__ void f(REAL* y, int n, REAL scale) {}");
  Json json = small();
  json["parameters"]["REAL"] = {"float", "__half", "double"};
  json["arguments"][0]["type"] = "REAL*";
  json["arguments"][0]["fill"] = "index";
  json["arguments"][0]["value"] = "i / 2";
  json["arguments"].push_back({{"name", "scale"}, {"type", "REAL"}, {"value", 0.5}});
  const KernelPlan plan = planned(json);
  const PlannedArgument& y = plan.arguments()[0];
  EXPECT_EQ(y.relative, 4e-3) << "as the least exact of its types";
  std::vector<std::vector<std::byte>> seen;
  for (const auto& [place, width] : {std::pair(0, 4U), std::pair(1, 2U), std::pair(2, 8U)}) {
    Point point;
    plan.fill(point, std::vector{10}, std::vector{0, place});
    std::vector<std::byte> bytes = initial_bytes(plan, y, point, 1);
    EXPECT_EQ(bytes.size(), 10 * width);
    EXPECT_EQ(scalar_bytes(plan.arguments()[2], point).size(), width);
    make_comparable(y, y.type_at(point), bytes);
    EXPECT_EQ(number_at(NumberKind::f64, &bytes[3 * sizeof(double)]), 1.5);
    seen.push_back(bytes);
  }
  EXPECT_TRUE(compare_output(y, seen[0], seen[1]).failure.empty());
  write_number(NumberKind::f64, 1.51, &seen[1][3 * sizeof(double)]);
  EXPECT_THAT(compare_output(y, seen[1], seen[0]).failure, HasSubstr("element 3 is 1.51"));
  EXPECT_EQ(KernelPlan(read_stored_text(plan.text())).digest(), plan.digest());
  json["parameters"]["REAL"] = {"float", "string"};
  EXPECT_THAT(refusal(json), HasSubstr("argument y: 'string*' is no type"));
}

TEST_F(Spec, RefusesSpecsWithoutWhatIsNeeded) {
  Json json = small();
  json["arguments"][0].erase("output");
  EXPECT_THAT(refusal(json), HasSubstr("no argument is an output"));
  json = small();
  json["problem"] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}};
  EXPECT_THAT(refusal(json), HasSubstr("6 sizes"));
  json = small();
  json["source"] = "absent.cu";
  EXPECT_THAT(refusal(json, ErrorCode::not_found), HasSubstr("absent.cu"));
  json = small();
  json["arguments"][0]["type"] = "std::string";
  EXPECT_THAT(refusal(json), HasSubstr("'std::string' is no type"));
  json = small();
  json["entry"] = "f\"; int x = 1; //";
  EXPECT_THAT(refusal(json), HasSubstr("does not name a kernel"));
}

TEST_F(Spec, SizesBeyond31BitsAreTheSameForAllProblems) {
  directory_.write("spec/f.cu", "__global__ void f(float* y, size_t n) { y[0] = n; }\n");
  Json json = small();
  json["problem"] = {{"n", 1LL << 32}};
  json["arguments"][1]["type"] = "size_t";
  const KernelPlan plan = planned(json);
  EXPECT_TRUE(plan.spec().sizes.empty());
  EXPECT_THAT(plan.spec().notes.front(), HasSubstr("size n is 4294967296 for all problems"));
  Point point;
  plan.fill(point, std::vector<int>{}, plan.usual_choice());
  EXPECT_EQ(plan.launch(plan.steps().front(), point).grid[0], 1U << 27);
  EXPECT_EQ(plan.elements(plan.arguments()[0], point), 1LL << 32);
  EXPECT_EQ(scalar_bytes(plan.arguments()[1], point)[4], std::byte{1});
  json["arguments"][1]["type"] = "int";
  directory_.write("spec/f.cu", kSource);
  const KernelPlan narrow = planned(json);
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { scalar_bytes(narrow.arguments()[1], point); }),
      HasSubstr("its value 4294967296 does not fit int"));
  json["problem"] = {{"n", 0}};
  EXPECT_THAT(refusal(json), HasSubstr("size n must be a whole number above 0"));
}

TEST_F(Spec, RefusesSizesThatNoMemoryHolds) {
  Json json = small();
  json["arguments"][0]["size"] = "n ** 6";
  const KernelPlan plan = planned(json);
  Point point;
  plan.fill(point, std::vector{1000000}, std::vector{0});
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { plan.elements(plan.arguments()[0], point); }),
      HasSubstr("argument y, size"));
}

constexpr const char* kT1 = R"json({
  "General": {"BenchmarkName": "conv"},
  "ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "block_size_x", "Type": "int", "Values": "[16, 32, 48, 64]", "Default": 16},
      {"Name": "filter_width", "Type": "int", "Values": "[3, 15]", "Default": 7},
      {"Name": "loop_unroll_factor_c", "Type": "int", "Values": "[0, 1]"}],
    "Conditions": [{"Expression": "32 <= block_size_x * 2 <= 96", "Parameters": []}]},
  "KernelSpecification": {
    "Language": "CUDA", "BenchmarkName": "conv", "KernelName": "f", "KernelFile": "f.cu",
    "CompilerOptions": ["-std=c++17", ""], "GlobalSizeType": "CUDA",
    "LocalSize": {"X": "block_size_x", "Y": "1", "Z": "1"},
    "GlobalSize": {"X": "262144 // block_size_x", "Y": "1", "Z": "1"},
    "GridDivX": ["block_size_x"], "ProblemSize": [4096, 64], "SharedMemory": 0, "Stream": null,
    "BenchmarkConfig": {"CHANNELS": 8},
    "Arguments": [
      {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly",
       "FillType": "Constant", "FillValue": 0.0, "Output": 1,
       "Size": "ProblemSize[0]*ProblemSize[1]"},
      {"Name": "x", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly",
       "FillType": "Random", "FillValue": 1.0, "Size": "ProblemSize[0]+max(filter_width)-1"},
      {"Name": "d_filter", "Type": "float", "MemoryType": "Vector", "MemType": "Constant",
       "FillType": "Random", "FillValue": 1.0, "Size": "max(filter_width)"}]}})json";

TEST_F(Spec, ReadsT1AsPublishedFilesHaveIt) {
  directory_.write("spec/f.cu", "#pragma unroll loop_unroll_factor_c\n");
  const KernelPlan plan(read(kT1));
  const KernelSpec& spec = plan.spec();
  ASSERT_EQ(spec.sizes.size(), 2U);
  EXPECT_EQ(spec.sizes[1].name, "problem_size_y");
  Point point;
  plan.fill(point, std::vector{4096, 64}, std::vector{1, 0, 0});
  const PlannedLaunch launch = plan.launch(plan.steps().front(), point);
  EXPECT_EQ(launch.grid[0], 128U) << "ProblemSize by GridDiv, not GlobalSize";
  EXPECT_EQ(launch.grid[1], 64U);
  EXPECT_EQ(plan.elements(plan.arguments()[1], point), 4096 + 15 - 1);
  EXPECT_TRUE(plan.arguments()[2].spec.is_constant);
  EXPECT_EQ(plan.steps().front().arguments.size(), 2U) << "a symbol is no parameter of the kernel";
  const std::string text = plan.program(point, std::vector{1, 0, 0}).text;
  EXPECT_THAT(text, HasSubstr("#define CHANNELS 8\n"));
  EXPECT_EQ(text.find("#pragma unroll"), std::string::npos) << "a factor of 0 removes it";
  EXPECT_NE(plan.program(point, std::vector{1, 0, 1}).text.find("#pragma unroll"),
            std::string::npos);
  EXPECT_EQ(plan.space(std::vector{4096, 64}, {}).points(), 3 * 2 * 2);
  EXPECT_THAT(spec.notes, testing::Contains(HasSubstr("Default 7 of filter_width")));
  EXPECT_THAT(spec.notes, testing::Contains(HasSubstr("GlobalSize")));
}

TEST_F(Spec, TakesReferencesOfT1ForOutputs) {
  directory_.write("spec/f.cu", "__global__ void f(float* y, const float* x) {}\n");
  Json json = Json::parse(kT1);
  Json& arguments = json["KernelSpecification"]["Arguments"];
  arguments[0].erase("Output");
  arguments[1].erase("Output");
  json["KernelSpecification"]["ReferenceArguments"] = {
      {{"TargetName", "y"},
       {"ValidationMethod", "SideBySideComparison"},
       {"ValidationThreshold", 0.1}}};
  const KernelPlan plan = planned(json);
  EXPECT_TRUE(plan.arguments()[0].spec.is_output);
  EXPECT_EQ(plan.arguments()[0].absolute, 0.1);
  json["kernelSpecification"] = Json::object();
  EXPECT_THAT(refusal(json), HasSubstr("the form before T1"));
  EXPECT_THAT(refusal({{"general", Json::object()}, {"configuration_space", Json::object()}}),
              HasSubstr("the form before T1"));
}

TEST_F(Spec, NothingOfT1IsDroppedSilently) {
  directory_.write("spec/f.cu", "");
  const auto with = [](const char* part, const char* key, const Json& value) {
    Json json = Json::parse(kT1);
    json[part][key] = value;
    return json;
  };
  EXPECT_EQ(planned(with("General", "Objective", "energy")).spec().objective, "energy");
  EXPECT_EQ(planned(with("KernelSpecification", "Language", "NVCUDA")).spec().objective, "");
  Json endless = Json::parse(kT1);
  endless["KernelSpecification"]["Arguments"][0].erase("Size");
  EXPECT_THAT(refusal(endless), HasSubstr("needs 'Size'"));
  Json large = with("General", "Objective", "gflops_per_s");
  large["General"]["Minimize"] = false;
  EXPECT_THAT(planned(large).spec().notes,
              testing::Contains(HasSubstr("General.Objective gflops_per_s is none of swr's")));
  for (const char* const usual : {"time", "Runtime"}) {
    EXPECT_THAT(planned(with("General", "Objective", usual)).spec().notes,
                testing::Not(testing::Contains(HasSubstr("Objective"))));
  }
  EXPECT_THAT(planned(with("KernelSpecification", "Device", 1)).spec().notes,
              testing::Contains("KernelSpecification.Device has no effect"));
  EXPECT_EQ(planned(with("ConfigurationSpace", "Constraints", {{{"Expression", "1 > 2"}}}))
                .spec()
                .constraints.back(),
            "1 > 2");
  Json flagged = Json::parse(kT1);
  flagged["KernelSpecification"]["Arguments"].push_back(
      {{"Name", "flag"}, {"Type", "bool"}, {"MemoryType", "Scalar"}, {"FillValue", true}});
  flagged["KernelSpecification"]["Arguments"].push_back(
      {{"Name", "none"}, {"Type", "int"}, {"MemoryType", "Scalar"}});
  const KernelPlan plan = planned(flagged);
  Point point;
  plan.fill(point, std::vector{1, 1}, std::vector{0, 0, 0});
  EXPECT_EQ(scalar_bytes(plan.arguments()[3], point), std::vector{std::byte{1}});
  EXPECT_THAT(plan.spec().notes,
              testing::Contains("scalar none is its FillValue, and 0 without one"));
}

TEST_F(Spec, RefusesSettingsWithoutEffect) {
  const auto refused = [&](const char* changes) {
    Json json = small();
    json.merge_patch(Json::parse(changes));
    return refusal(json);
  };
  EXPECT_THAT(refused(R"({"parameters": {"block_size_x": {"values": [32], "default": 64}}})"),
              HasSubstr("its default 64 is none of its values"));
  EXPECT_THAT(refused(R"({"parameters": {"nvml_gr_clock": [900, 1200]}})"),
              HasSubstr("Kernel Tuner sets clocks or power by this name"));
  const auto refused_argument = [&](const char* changes) {
    Json json = small();
    json["arguments"][0].merge_patch(Json::parse(changes));
    return refusal(json);
  };
  EXPECT_THAT(refused_argument(R"({"fill": "zeros", "low": -1})"),
              HasSubstr("low and high belong"));
  EXPECT_THAT(refused_argument(R"({"fill": "random", "value": 3})"), HasSubstr("a value belongs"));
  EXPECT_THAT(refused_argument(R"({"fill": "zeros", "file": "a"})"), HasSubstr("a file belongs"));
  EXPECT_THAT(refused_argument(R"({"size": null})"), HasSubstr("a scalar needs a 'value'"));
  EXPECT_THAT(refused(R"({"steps": [{"entry": "f", "block": 1, "grid": 1}]})"),
              HasSubstr("k.json.entry: it belongs into 'steps'"));
  Json input = small();
  input["arguments"].push_back({{"name", "x"}, {"type", "const float*"}, {"size", "n"}});
  EXPECT_THAT(read(input.dump()).notes,
              testing::Contains(HasSubstr("argument x is const and has no fill")));
  input["arguments"].back()["low"] = 1;
  EXPECT_EQ(read(input.dump()).arguments.back().fill, KernelFill::random);
}

TEST_F(Spec, ComparesArgumentsWithTheKernel) {
  const auto with = [&](const std::string& parameters) {
    directory_.write("spec/f.cu",
                     "namespace n { __global__ void g(int); }\n"
                     "__global__ void f(" +
                         parameters + ") {}\n");
    return small();
  };
  EXPECT_EQ(refusal(with("float* y, int n, double* sum")),
            "small: f takes (float* y, int n, double* sum), and the spec has 2 of them; "
            "'sum' is missing");
  EXPECT_THAT(refusal(with("float* y")), HasSubstr("the spec has 2 of them"));
  EXPECT_THAT(refusal(with("int n, float* y")), HasSubstr("argument y: f takes (int n, float* y)"));
  EXPECT_THAT(refusal(with("float* y, float n")), HasSubstr("is not of its argument's type int"));
  EXPECT_THAT(refusal(with("float* y, long long n")),
              HasSubstr("'n' is not of its argument's type"));
  EXPECT_THAT(refusal(with("double* y, int n")), HasSubstr("'y' is not of its argument's type"));
  EXPECT_THAT(refusal(with("int* y, int n")), HasSubstr("'y' is not of its argument's type"));
  for (const char* const parameters :
       {"float *__restrict__ y, const unsigned n", "float y[], int", "real* y, count n",
        "float4* y, int n", "char* y, int n", "float* y MORE",
        "\n#ifdef A\nfloat* y\n#endif\n, int n, int m"}) {
    EXPECT_EQ(planned(with(parameters)).arguments().size(), 2U) << parameters;
  }
  Json of_template = small();
  directory_.write("spec/f.cu", "template <int kN> __global__ void f(float* y) {}\n");
  of_template["entry"] = "f<2>";
  EXPECT_THAT(refusal(of_template), HasSubstr("f takes (float* y), and the spec has 2 of them"));
}

TEST_F(Spec, RefusesT1ThatExecutesOrIsOfAnotherLanguage) {
  Json json = Json::parse(kT1);
  json["KernelSpecification"]["Arguments"][1]["FillType"] = "Script";
  EXPECT_THAT(refusal(json), HasSubstr("a spec executes nothing on the host"));
  json = Json::parse(kT1);
  json["KernelSpecification"]["Language"] = "OpenCL";
  EXPECT_THAT(refusal(json), HasSubstr("swr tunes CUDA, not OpenCL"));
  json = Json::parse(kT1);
  json["KernelSpecification"]["Arguments"] = Json::array();
  EXPECT_THAT(refusal(json), HasSubstr("no argument is an output"));
  json = Json::parse(kT1);
  json["KernelSpecification"]["KernelFile"] = "../f.cu";
  EXPECT_THAT(refusal(json), HasSubstr("leaves the folder of its spec"));
}

TEST_F(Spec, ReadsTextures) {
  directory_.write("spec/f.cu", "__global__ void f(float*, int, cudaTextureObject_t) {}\n");
  Json json = small();
  json["arguments"].push_back(Json::parse(R"json({"name": "image", "type": "unsigned char",
      "fill": "random", "texture": {"extent": ["n", "block_size_x"], "address": "border",
                                    "filter": "linear", "read": "fractions"}})json"));
  const KernelPlan plan = planned(json);
  const KernelTexture& texture = *plan.arguments()[2].spec.texture;
  EXPECT_EQ(texture.address, TextureAddress::border);
  EXPECT_TRUE(texture.interpolates && texture.reads_fractions && !texture.is_normalized);
  Point point;
  plan.fill(point, std::vector{100}, std::vector{1});
  EXPECT_EQ(plan.elements(plan.arguments()[2], point), 6400);
  EXPECT_EQ(KernelPlan(read_stored_text(plan.text())).digest(), plan.digest());
  json["arguments"][2]["texture"]["filter"] = "nearest";
  EXPECT_NE(planned(json).digest(), plan.digest());
}

TEST_F(Spec, RefusesWhatNoTextureIs) {
  const auto refused = [this](const char* argument) {
    Json json = small();
    json["arguments"].push_back(Json::parse(argument));
    return refusal(json);
  };
  EXPECT_THAT(refused(R"({"name": "t", "type": "float", "size": 4, "texture": {"extent": 4}})"),
              HasSubstr("extent for its size"));
  EXPECT_THAT(refused(R"({"name": "t", "type": "double", "texture": {"extent": 4}})"),
              HasSubstr("8, 16 or 32 bits"));
  EXPECT_THAT(refused(R"({"name": "t", "type": "float3", "texture": {"extent": 4}})"),
              HasSubstr("8, 16 or 32 bits"));
  EXPECT_THAT(refused(R"({"name": "t", "type": "float", "texture": {"extent": [1, 2, 3, 4]}})"),
              HasSubstr("one to three"));
  EXPECT_THAT(
      refused(R"({"name": "t", "type": "int", "texture": {"extent": 4, "filter": "linear"}})"),
      HasSubstr("needs real elements"));
  EXPECT_THAT(
      refused(R"({"name": "t", "type": "int", "texture": {"extent": 4, "read": "fractions"}})"),
      HasSubstr("8 or 16 bits are read as fractions"));
  EXPECT_THAT(
      refused(R"({"name": "t", "type": "float", "texture": {"extent": 4, "address": "wrap"}})"),
      HasSubstr("normalized"));
  EXPECT_THAT(
      refused(R"({"name": "t", "type": "float", "texture": {"extent": 4, "address": "edge"}})"),
      HasSubstr("one of clamp, border, wrap, mirror, not 'edge'"));
}

constexpr const char* kAnnotated = R"(
#pragma kernel tune(threads = 32, 64, default(128), 128)
#pragma kernel tune(items = 1, 2)
#pragma kernel set(tile = threads * items)
#pragma kernel restriction(tile <= 128 && threads / 64 < 2)
#pragma kernel problem_size(n)
#pragma kernel block_size(threads)
#pragma kernel grid_divisor(tile)
#pragma kernel buffers(y[n], x[2 * n])
#pragma swr size(n = 1000)
template <typename T, int tile, int items = 1>
__global__ void twice(int n, T* y, const T* x) {}
)";

TEST_F(Spec, ReadsPragmas) {
  const KernelPlan plan(read(kAnnotated, "spec/twice.cu"));
  EXPECT_EQ(plan.spec().name, "twice");
  Point point;
  plan.fill(point, std::vector{1000}, std::vector{1, 1});
  EXPECT_EQ(plan.launch(plan.steps().front(), point).grid[0], 8U);
  EXPECT_EQ(plan.elements(plan.arguments()[2], point), 2000);
  EXPECT_TRUE(plan.arguments()[1].spec.is_output);
  EXPECT_FALSE(plan.arguments()[2].spec.is_output);
  EXPECT_THAT(plan.program(point, std::vector{1, 1}).kernels,
              ElementsAre("twice<float, (64 * 2), 2>"));
  EXPECT_EQ(plan.space(std::vector{1000}, {}).points(), 4) << "C's division rounds towards zero";
  EXPECT_EQ(plan.usual_choice(), (std::vector{2, 0}));
  EXPECT_THAT(plan.spec().notes, testing::Contains(HasSubstr("template parameter T is float")));
}

std::string annotated(const std::string& more) {
  std::string text = kAnnotated;
  return text.insert(text.find("#pragma"), more);
}

TEST_F(Spec, PragmasNameAnObjective) {
  const auto objective = [&](const std::string& pragmas) {
    return read(annotated(pragmas), "spec/twice.cu").objective;
  };
  EXPECT_EQ(objective(""), "");
  EXPECT_EQ(objective("#pragma swr objective(edp)\n"), "edp");
  EXPECT_EQ(objective("#pragma swr objective(time_us * (1 + registers / 255))\n"),
            "time_us * (1 + registers / 255)");
  EXPECT_EQ(objective("#pragma swr objective(occupancy)\n"
                      "#pragma swr objective_higher_is_better(true)\n"),
            "1 / (occupancy)");
  EXPECT_EQ(objective("#pragma swr objective(energy)\n"
                      "#pragma swr objective_higher_is_better(false)\n"),
            "energy");
}

TEST_F(Spec, RefusesObjectivesOfPragmasAsThoseOfOtherForms) {
  const auto refused = [&](const std::string& pragmas) {
    return message_of(ErrorCode::invalid_argument,
                      [&] { read(annotated(pragmas), "spec/twice.cu"); });
  };
  EXPECT_EQ(refused("#pragma swr objective(enrgy)\n"),
            "twice.cu: objective 'enrgy': it is no objective and no metric; did you mean "
            "'energy'?");
  EXPECT_THAT(refused("#pragma swr objective()\n"), HasSubstr("says nothing"));
  EXPECT_THAT(refused("#pragma swr objective(edp)\n#pragma swr objective(time)\n"),
              HasSubstr("is there twice"));
  EXPECT_THAT(refused("#pragma swr objective_higher_is_better(true)\n"),
              HasSubstr("needs '#pragma swr objective(...)'"));
  EXPECT_THAT(refused("#pragma swr objective(occupancy)\n"
                      "#pragma swr objective_higher_is_better(yes)\n"),
              HasSubstr("must be true or false, not 'yes'"));
}

/// Names are no regular expressions, and neither long texts nor names of names exhaust anything.
TEST_F(Spec, PragmasOfAnyContentAreReadOrRefused) {
  constexpr std::size_t kLong = std::size_t{1} << 19;
  const std::string kernel = "__global__ void f(int n) {}\n";
  const std::string tuned = "#pragma kernel tune(a = 1)\n#pragma kernel problem_size(n)\n";
  const auto refused = [&](const std::string& text) {
    return message_of(ErrorCode::invalid_argument, [&] { read(text, "spec/k.cu"); });
  };
  EXPECT_EQ(read("#pragma kernel set(x{2,1} = a)\n" + std::string(kLong, ' ') + "\n" + tuned +
                     "#pragma kernel block_size(a)\n" + kernel,
                 "spec/k.cu")
                .name,
            "f");
  std::string doubled;
  for (int i = 1; i <= 60; ++i) {
    const std::string last = "s" + std::to_string(i - 1);
    doubled += "#pragma kernel set(s" + std::to_string(i) + " = " + last + " + " + last + ")\n";
  }
  EXPECT_THAT(refused(tuned + "#pragma kernel block_size(s60)\n" + doubled + kernel),
              HasSubstr("longer than 65536"));
  EXPECT_THAT(refused("#pragma kernel tune(a = " + std::string(kLong, '1') + ")\n" + kernel),
              HasSubstr("longer than 4096"));
  EXPECT_THAT(refused(tuned + "__global__ void f(" + std::string(kLong, 'n') + ") {}\n"),
              HasSubstr("has no name or no type"));
  EXPECT_EQ(refused(std::string(1 << 19, '{')),
            "k.cu: it has no line '#pragma kernel tune(NAME = VALUES)'");
}

TEST_F(Spec, RefusesPragmasThatItDoesNotKnow) {
  const auto refused = [&](const std::string& text) {
    return message_of(ErrorCode::invalid_argument, [&] { read(text, "spec/t.cu"); });
  };
  EXPECT_THAT(refused("#pragma kernel tunes(a = 1)\n__global__ void f(int n) {}"),
              HasSubstr("unknown pragma 'tunes'; did you mean 'tune'?"));
  EXPECT_THAT(refused("__global__ void f(int n) {}"), HasSubstr("#pragma kernel tune"));
  EXPECT_THAT(refused("#pragma kernel tune(a = 1)\nvoid f();"), HasSubstr("no kernel"));
}

}  // namespace
}  // namespace swr::kernel_spec
