// SPDX-License-Identifier: MIT
// Sources with pragmas as people write them: comments, continued lines, attributes, namespaces,
// scalars that are no sizes, and what must be refused rather than lost.
#include "kernel_spec/source/signatures.h"
#include "kernel_spec/source/source_tokens.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "tests/support/test.h"
#include <swr/kernel_spec.h>

namespace swr::kernel_spec {
namespace {

constexpr const char* kPragmas =
    "#pragma kernel tune(lanes = 2, 4, 8)\n"
    "#pragma kernel problem_size(rows) block_size(lanes)\n"
    "#pragma kernel buffers(out[rows], in[rows])\n";
constexpr const char* kKernel =
    "__global__ void scale(float* out, const float* in, int rows) { out[0] = in[rows - 1]; }\n";

class Pragmas : public ::testing::Test {
 protected:
  KernelSpec read(const std::string& text) const {
    return read_kernel_spec(directory_.write("spec/k.cu", text));
  }
  KernelPlan planned(const std::string& text) const { return KernelPlan(read(text)); }
  std::string refusal(const std::string& text) const {
    return message_of(ErrorCode::invalid_argument, [&] { planned(text); });
  }
  long long points(const std::string& text) const {
    const KernelPlan plan = planned(text);
    std::vector<int> sizes(plan.spec().sizes.size(), 1000);
    return plan.space(sizes, {}).points();
  }

  TempDirectory directory_;
};

std::vector<std::string> spellings(std::string_view text) {
  std::vector<std::string> all;
  const SourceTokens source(text);
  for (const SourceToken& token : source.tokens()) {
    all.emplace_back(token.spelling);
  }
  all.pop_back();
  return all;
}

TEST_F(Pragmas, TokensAreThoseOfCpp) {
  EXPECT_THAT(spellings("a/*b\n*/c//d\n e::f"), ElementsAre("a", "c", "e", "::", "f"));
  EXPECT_THAT(spellings("x = R\"q(a)\" // \")q\" + 1'000.5e-3f;"),
              ElementsAre("x", "=", "R\"q(a)\" // \")q\"", "+", "1'000.5e-3f", ";"));
  EXPECT_THAT(spellings("\"a\\\"b\" '\\'' na\\\nme"), ElementsAre("\"a\\\"b\"", "'\\''", "name"));
  EXPECT_THAT(spellings("\xef\xbb\xbf#define A 1\r\nb # c"),
              ElementsAre("#", "define", "A", "1", "", "b", "#", "c"));
  EXPECT_THAT(spellings("\"not closed\nb"), ElementsAre("\"not closed", "b"));
}

TEST_F(Pragmas, KnownConditionsLeaveOutWhatTheyDo) {
  EXPECT_THAT(spellings("#if 0\na don't\n#if 1\nb\n#endif\n#else\nc\n#endif\nd"),
              ElementsAre("c", "d"));
  EXPECT_THAT(spellings("#ifdef kernel_tuner\na\n#else\nb\n#endif"), ElementsAre("a"));
  EXPECT_THAT(spellings("#if !defined(__CUDACC_RTC__)\na\n#elif X\nb\n#endif"), ElementsAre("b"));
  EXPECT_THAT(spellings("#ifndef GUARD\na\n#else\nb\n#endif"), ElementsAre("a", "b"))
      << "nobody knows";
  EXPECT_THAT(spellings("#endif\n#else\na"), Contains("a")) << "without an #if";
}

TEST_F(Pragmas, CommentsAndContinuedLinesChangeNothing) {
  const std::string kernel = kKernel;
  EXPECT_EQ(points(kPragmas + kernel), 3);
  const std::string restricted = std::string(kPragmas) + "#pragma kernel restriction(lanes < 8)";
  for (const char* const behind :
       {"\n", " // why\n", " /* why */\n", "\r\n", " /* over\n two lines */\n", "\n// a\n/* b */\n",
        "\n#define UNRELATED 1\n", "\nstatic __device__ int helper(int a) { return a; }\n"}) {
    EXPECT_EQ(points(restricted + behind + kernel), 2) << behind;
  }
  EXPECT_EQ(points("\xef\xbb\xbf" + restricted + "\n" + kernel), 2);
  EXPECT_EQ(points("#if 0\n" + restricted + "\n" + kernel + "#endif\n" + kPragmas + kernel), 3);
  EXPECT_EQ(points("const char* s = R\"(\n" + restricted + "\n)\";\n" + kPragmas + kernel), 3);
  EXPECT_EQ(points("// #pragma kernel tune(x = 1, 2)\n#pragma kernel tune(lanes = 4) \\\n"
                   " problem_size(rows) /* more */ \\\n block_size(lanes)\n"
                   "#pragma kernel buffers(out[rows], in[rows])\n" +
                   kernel),
            1);
}

TEST_F(Pragmas, EveryPrefixIsRead) {
  for (const char* const prefix : {"kernel_tuner", "kernel_launcher", "swr"}) {
    std::string text = kPragmas;
    for (auto at = text.find("kernel"); at != text.npos; at = text.find("kernel", at + 15)) {
      text.replace(at, 6, prefix);
    }
    EXPECT_EQ(points(text + kKernel), 3) << prefix;
  }
  EXPECT_EQ(points("#pragma once\n#pragma unroll(4)\n#  pragma  kernel  tune(b = 1, 2)\n" +
                   std::string(kPragmas) + kKernel),
            6);
}

TEST_F(Pragmas, KernelsAreFoundWhereverCppHasThem) {
  const auto entry = [&](const std::string& before, const std::string& head) {
    return planned(before + kPragmas + head + "(float* out, const float* in, int rows) {}\n")
        .spec()
        .steps.front()
        .entry;
  };
  EXPECT_EQ(entry("", "static __global__ void\nscale"), "scale");
  EXPECT_EQ(entry("", "__launch_bounds__(64, 2) __global__ void scale"), "scale");
  EXPECT_EQ(entry("", "__global__ __launch_bounds__((2) * 32) void scale"), "scale");
  EXPECT_EQ(entry("", "extern \"C\" __global__ void BOUNDS(64) scale"), "scale");
  EXPECT_EQ(entry("", "__global__ void __cluster_dims__(2, 1, 1) scale"), "scale");
  EXPECT_EQ(entry("namespace a::b { struct S { int i; };\n", "__global__ void scale"),
            "a::b::scale");
  EXPECT_EQ(entry("namespace a { namespace b { int i; } }\n", "__global__ void scale"), "scale");
  EXPECT_EQ(entry("namespace a {\n", "namespace {\ninline namespace c {\n__global__ void scale"),
            "a::c::scale");
  EXPECT_EQ(entry("extern \"C\" {\n", "__global__ void scale"), "scale");
  EXPECT_EQ(entry("", "template <class T = double, int lanes = (3 > 2)>\n__global__ void scale"),
            "scale<double, lanes>");
}

TEST_F(Pragmas, ParametersAreReadWithTheirTypes) {
  const auto kernels = kernels_of(
      "template <typename T, unsigned N = 4, template <int> class Q>\n"
      "__global__ void f(const T *__restrict__ a, float b[], int(c)[2], unsigned int n = 3, "
      "Pair<int, 2> p);\n"
      "__global__ void g(void) {}\n__global__ void h(int n MORE, float* x MORE) {}\n",
      "k.cu");
  ASSERT_EQ(kernels.kernels.size(), 3U);
  const KernelSignature& f = kernels.kernels[0];
  EXPECT_EQ(f.template_parameters.size(), 3U);
  EXPECT_EQ(f.template_parameters[1].usual, "4");
  ASSERT_EQ(f.parameters.size(), 5U);
  EXPECT_EQ(f.parameters[0].type, "const T *__restrict__");
  EXPECT_TRUE(f.parameters[1].is_pointer());
  EXPECT_EQ(f.parameters[3].type, "unsigned int");
  EXPECT_EQ(f.parameters[3].usual, "3");
  EXPECT_EQ(f.parameters[4].name, "p");
  EXPECT_FALSE(f.is_complete) << "c has no name that can be read";
  EXPECT_TRUE(kernels.kernels[1].parameters.empty());
  EXPECT_FALSE(kernels.kernels[2].is_complete) << "MORE may hide parameters";
}

TEST_F(Pragmas, ScalarsThatAreNoSizesHaveValues) {
  const std::string head = std::string(kPragmas) + "#pragma swr size(rows = 500)\n";
  const std::string kernel =
      "__global__ void scale(float* out, const float* in, int rows, double a, bool b, short c, "
      "int step) {}\n";
  const KernelSpec usual = read(head + kernel);
  ASSERT_EQ(usual.sizes.size(), 2U);
  EXPECT_EQ(usual.sizes[0].usual, 500);
  EXPECT_THAT(usual.notes, Contains(HasSubstr("scalar a is 1.5; '#pragma swr value(a = VALUE)'")));
  const KernelPlan plan = planned(
      head + "#pragma swr value(a = 0.25) value(b = false) value(step = rows / 2)\n" + kernel);
  EXPECT_EQ(plan.spec().sizes.size(), 1U);
  Point point;
  plan.fill(point, std::vector{500}, std::vector{0});
  EXPECT_EQ(plan.arguments()[3].value->evaluate(point.table, point.heap).real, 0.25);
  EXPECT_EQ(plan.arguments()[6].value->evaluate(point.table, point.heap).integer, 250);
  EXPECT_THAT(refusal(head + "#pragma swr size(a = 0.5)\n" + kernel),
              HasSubstr("'a' is double and no size; write '#pragma swr value(a = 0.5)'"));
  EXPECT_THAT(refusal(head + "#pragma swr value(rows = 4)\n" + kernel),
              HasSubstr("has a size and a value"));
}

TEST_F(Pragmas, ValuesAreConstantsOfC) {
  const KernelSpec spec =
      read("#pragma kernel tune(a = 1 << 4, 2 * 32, default(0x10), \"x, y\", Tile<8, 4>, float)\n" +
           std::string(kPragmas) + kKernel);
  EXPECT_THAT(spec.parameters[0].values, ElementsAre("16", "64", "x, y", "Tile<8, 4>", "float"));
  EXPECT_EQ(spec.parameters[0].usual, "16");
  EXPECT_EQ(read("#pragma kernel tune(a = 1, 2) default(2)\n" + std::string(kPragmas) + kKernel)
                .parameters[0]
                .usual,
            "2");
  EXPECT_EQ(points(std::string(kPragmas) +
                   "#pragma kernel tune(a = 1, 2, 3, 4)\n"
                   "#pragma kernel restriction(a<lanes, lanes>2, (a == 1 || a > 2))\n" +
                   kKernel),
            5)
      << "commas part restrictions, < and > do not join them";
}

TEST_F(Pragmas, OutputsAreWhatKernelsMayWrite) {
  const auto is_output = [&](const std::string& parameter) {
    return planned(std::string(kPragmas) + "__global__ void scale(float* out, " + parameter +
                   ", int rows) {}\n")
        .arguments()[1]
        .spec.is_output;
  };
  EXPECT_FALSE(is_output("const float* in"));
  EXPECT_FALSE(is_output("float const *const in"));
  EXPECT_TRUE(is_output("float* const __restrict__ in")) << "the pointer alone is const";
}

TEST_F(Pragmas, NothingIsLostSilently) {
  const auto refused = [&](const std::string& pragma) {
    return refusal(std::string(kPragmas) + pragma + "\n" + kKernel);
  };
  EXPECT_THAT(refused("#pragma kernel restriction lanes < 4"),
              HasSubstr("line 4: 'restriction' is no directive"));
  EXPECT_THAT(refused("#pragma kernel restriction(lanes < 4"), HasSubstr("is not closed"));
  EXPECT_THAT(refused("#pragma kernel tune(a = 1), tune(b = 2)"), HasSubstr("',' is no directive"));
  EXPECT_THAT(refused("#pragma kernel problem_size(4)"),
              HasSubstr("line 4: 'problem_size' is there twice"));
  EXPECT_THAT(refused("#pragma kernel buffers(in[4])"), HasSubstr("'in' is there twice"));
  EXPECT_THAT(refused("#pragma kernel buffers(inn[4])"),
              HasSubstr("scale has no parameter 'inn'; did you mean 'in'?"));
  EXPECT_THAT(refused("#pragma swr size(row = 4)"), HasSubstr("did you mean 'rows'?"));
  EXPECT_THAT(refused("#pragma swr output(outs)"), HasSubstr("did you mean 'out'?"));
  EXPECT_THAT(refused("#pragma swr types(T = float)"), HasSubstr("scale has no type 'T'"));
  EXPECT_THAT(refused("#pragma swr set(x)"), HasSubstr("write set(NAME = ...)"));
  EXPECT_THAT(refused("#pragma kernel tune(a = 1, 2) default(3)"),
              HasSubstr("default 3 is none of its values"));
  EXPECT_THAT(refusal(std::string(kPragmas) +
                      "template <int w> __global__ void scale(float* out, float* in, int rows) {}"),
              HasSubstr("template parameter 'w' has no value"));
  EXPECT_THAT(refusal(kKernel + std::string(kPragmas)),
              HasSubstr("line 2: no kernel '__global__ void NAME(...)' follows"));
}

TEST_F(Pragmas, TwoKernelsAreTwoSpecs) {
  const std::string other = "__global__ void other(float* out, const float* in, int rows) {}\n";
  EXPECT_THAT(refusal(kPragmas + std::string(kKernel) + kPragmas + other),
              HasSubstr("line 8: it has pragmas of two kernels, scale and other"));
  EXPECT_EQ(read(other + kPragmas + kKernel + other).name, "scale");
}

}  // namespace
}  // namespace swr::kernel_spec
