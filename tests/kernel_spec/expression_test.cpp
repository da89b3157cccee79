// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/expression.h"

#include "kernel_spec/source/signatures.h"
#include "kernel_spec/source/source_tokens.h"
#include "kernel_spec/space/space.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "tests/support/test.h"
#include <swr/kernel_spec.h>

namespace swr::kernel_spec {
namespace {

std::string text_of(const std::string& text, Dialect dialect = Dialect::python) {
  static const std::vector<std::string> kNames{"block_size_x", "n"};
  ValueHeap heap;
  const std::vector<Value> table{Value::of(64LL), Value::of(1000LL)};
  return to_string(BoundExpression(Expression(text, dialect), kNames).evaluate(table, heap));
}

std::string error_of(const std::string& text, Dialect dialect = Dialect::python) {
  try {
    return "no error but " + text_of(text, dialect);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(Expression, DividesAsCWhereItIsC) {
  EXPECT_EQ(text_of("-7 / 2", Dialect::c), "-3");
  EXPECT_EQ(text_of("-7 % 2", Dialect::c), "-1");
  EXPECT_EQ(text_of("n > 1 && !(n == 2) ? div_ceil(n, block_size_x) : 0", Dialect::c), "16");
  EXPECT_EQ(text_of("5 && 7", Dialect::c), "True");
}

TEST(Expression, HasTheOperatorsOfPublishedFiles) {
  EXPECT_EQ(text_of("(block_size_x & (block_size_x - 1)) == 0"), "True");
  EXPECT_EQ(text_of("6 & 3 == 2"), "True") << "Python's bits bind closer than comparisons";
  EXPECT_EQ(text_of("6 & 3 == 2", Dialect::c), "0") << "C's do not";
  EXPECT_EQ(text_of("1 << 2 + 1 | 1 ^ 3 & 2", Dialect::c), "11");
  EXPECT_EQ(text_of("1 | 2 == 2 && 0", Dialect::c), "False");
  EXPECT_EQ(text_of("~0x0F & 0xff"), "240");
  EXPECT_EQ(text_of("n in (10, 1000, 20) and n not in ()"), "True");
  EXPECT_EQ(text_of("all(n % v == 0 for v in [10, 20] if v > 5)"), "True");
  EXPECT_EQ(text_of("any(1 // v for v in [1, 0])"), "True") << "what follows is not computed";
  EXPECT_EQ(text_of("sum(v * v for v in range(4)) + math.log2(8) + np.ceil(0.5)"), "18.0");
  EXPECT_EQ(text_of("lambda p: p[\"n\"] - p['block_size_x']"), text_of("n - block_size_x"));
  EXPECT_EQ(text_of("lambda n, block_size_x: n - block_size_x"), text_of("n - block_size_x"));
  EXPECT_EQ(text_of("n in {10, 1000} and n not in {2, 4}"), text_of("n in [10, 1000]"));
  EXPECT_EQ(text_of("[len({1, 1, 2}), len(set([3, 3.0, True, 1]))]"), "[2, 2]");
  EXPECT_EQ(text_of("n in set([10, 1000]) and n not in set([])"), "True");
  EXPECT_THAT(error_of("{1, 2} == {2, 1}"), HasSubstr("'{' stands where a value is expected"));
  EXPECT_THAT(error_of("set([1])"), HasSubstr("there is no function 'set'"));
  EXPECT_THAT(error_of("len(set(range(257)))"), HasSubstr("at most 256 items"));
  EXPECT_EQ(text_of("math.log2(8).is_integer() and not (7 / 2).is_integer()"), "True");
  EXPECT_THAT(error_of("is_integer(n)"), HasSubstr("there is no function 'is_integer'"));
  EXPECT_EQ(text_of("0b101 + 0o17 + 1_000"), "1020");
  EXPECT_EQ(text_of("64u + 0x10UL + 0.5f", Dialect::c), "80.5");
  EXPECT_EQ(text_of("divmod(-7, 2) + tuple(sorted([3, 1]))"), "[-4, 1, 1, 3]");
  EXPECT_EQ(text_of("np.prod([2, 3]) + math.log10(100) + math.log(8, 2) + math.trunc(-1.5)"),
            "10.0");
}

TEST(Expression, HasFunctionsOfPythonsLibrary) {
  EXPECT_EQ(text_of("math.lcm(4, 6, 10) + math.gcd(n, 300, 250) + math.isqrt(99)"), "119");
  EXPECT_EQ(text_of("[lcm(), gcd(), lcm(0, 5), gcd(-4)]"), "[1, 0, 0, 4]");
  EXPECT_EQ(text_of("isqrt(9223372036854775807)"), "3037000499");
  EXPECT_EQ(text_of("isqrt(3037000499 ** 2) - isqrt(3037000499 ** 2 - 1)"), "1");
  EXPECT_EQ(text_of("[round(2.675, 2), round(0.125, 2), round(n, 2), round(1e300, 1)]"),
            "[2.67, 0.12, 1000, 1e+300]");
  EXPECT_EQ(text_of("round(math.exp(1), 3) + np.exp(0)"), "3.718");
  EXPECT_EQ(text_of("int(' -12 ') + int('+5') + int('4x8'[2])"), "1");
  for (const char* const other :
       {"int('')", "int('+-5')", "int('1.5')", "int('12', 16)", "int('9223372036854775808')",
        "isqrt(-1)", "isqrt(4.0)", "lcm(9223372036854775807, 2)", "exp(1000)", "round(1.5, -1)",
        "round(1.5, 1.0)", "gcd(4, 2.0)", "pow(2, 3, 5)"}) {
    EXPECT_THAT(error_of(other), HasSubstr("column ")) << other;
  }
}

TEST(Expression, CastsAsC) {
  const auto in_c = [](const std::string& text) { return text_of(text, Dialect::c); };
  EXPECT_EQ(in_c("(float) n / (block_size_x + 1)"), in_c("float(n) / (block_size_x + 1)"));
  EXPECT_EQ(in_c("(unsigned int) -1.5 * 2 + (long long) (n > 1)"), "-1");
  EXPECT_EQ(in_c("static_cast<int>(7.5) / 2 + static_cast<unsigned long>(n)"), "1003");
  EXPECT_EQ(in_c("(int) ceil((double) n / 3) % (size_t) 4 + (bool) 5"), "3");
  EXPECT_EQ(in_c("double(n) / 16 + size_t(1.9)"), "63.5");
  EXPECT_EQ(in_c("(n) - 1 + -(int) 2.9 + (int) (float) 3"), "1000");
  EXPECT_THAT(error_of("static_cast<n>(1)", Dialect::c), HasSubstr("a type such as <int>"));
  EXPECT_THAT(error_of("(char) n", Dialect::c), HasSubstr("does not continue"));
  EXPECT_THAT(error_of("(int) n"), HasSubstr("does not continue")) << "Python has no casts";
}

TEST(Expression, OverWholeNumbersIsAProgram) {
  const std::vector<std::string> names{"a", "b"};
  const auto program_of = [&](const char* text, Dialect dialect = Dialect::python) {
    return IntegerProgram(BoundExpression(Expression(text, dialect), names).expression());
  };
  const std::vector<Value> table{Value::of(-7LL), Value::of(2LL)};
  EXPECT_EQ(program_of("a // b * 10 + a % b").run(table), -39);
  EXPECT_EQ(program_of("a / b * 10 + a % b", Dialect::c).run(table), -31);
  EXPECT_EQ(program_of("div_ceil(a, b) if a < b <= 2 else b").run(table), -3);
  EXPECT_EQ(program_of("b == 2 or a // 0").run(table), 1) << "what is decided is not computed";
  EXPECT_EQ(program_of("not a or -b == -2").run(table), 1);
  EXPECT_EQ(program_of("a && b || 0", Dialect::c).run(table), 1);
  EXPECT_EQ(program_of("~a & 4 | b ^ 1").run(table), 7);
  for (const char* const without : {"a // (b - 2)", "9223372036854775807 + b"}) {
    EXPECT_EQ(program_of(without).run(table), std::nullopt) << without;
  }
  EXPECT_EQ(program_of("a + b").run(std::vector{Value::of(0.5), Value::of(1LL)}), std::nullopt);
  for (const char* const other :
       {"a / b", "2 ** b", "a << b", "max(a, b)", "a + 0.5", "'a' < 'b'"}) {
    EXPECT_TRUE(program_of(other).is_empty()) << other;
  }
}

TEST(Expression, SaysWhereWhatCannotBeReadIs) {
  EXPECT_THAT(error_of("1 + "), HasSubstr("column 5: a value is missing"));
  EXPECT_THAT(error_of("(1, 2)", Dialect::c), HasSubstr("')' is missing"));
  EXPECT_THAT(error_of("0x1g"), HasSubstr("followed by letters"));
  EXPECT_THAT(error_of("1 << -1"), HasSubstr("less than 0 bits"));
  EXPECT_THAT(error_of("3 << 62"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(error_of("n & 0.5"), HasSubstr("& does not take"));
  EXPECT_THAT(error_of("__import__('os')"), HasSubstr("there is no function '__import__'"));
  EXPECT_THAT(error_of("n.real"), HasSubstr("column 3: there is one method, is_integer()"));
  EXPECT_THAT(error_of("lambda n"), HasSubstr("':' is missing"));
  EXPECT_THAT(error_of("1 + lambda"), HasSubstr("'lambda' stands where a value"));
  EXPECT_THAT(error_of("007"), HasSubstr("begins with 0"));
  EXPECT_THAT(error_of("1 < 2 < 3", Dialect::c), HasSubstr("join them with &&"));
  EXPECT_THAT(error_of("n(1)"), HasSubstr("there is no function 'n'"));
  EXPECT_THAT(error_of("[i for i in 3]"), HasSubstr("takes a list"));
}

TEST(Expression, NamesTheNearestKnownName) {
  EXPECT_THAT(error_of("block_size_X * 2"), HasSubstr("did you mean 'block_size_x'?"));
  EXPECT_THAT(error_of("frobnicate"), HasSubstr("known are block_size_x, n"));
}

TEST(Expression, RefusesWhatHasNoValue) {
  EXPECT_THAT(error_of("n // (block_size_x - 64)"), HasSubstr("column 3: division by zero"));
  EXPECT_THAT(error_of("9223372036854775807 + 1"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(error_of("2 ** 63"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(error_of("(0 - 8) ** 0.5"), HasSubstr("is not real"));
  EXPECT_THAT(error_of("[1][3]"), HasSubstr("index 3 is outside"));
  EXPECT_THAT(error_of("'a' < 1"), HasSubstr("does not take text and a whole number"));
}

TEST(Expression, IsBoundedInSizeDepthMemoryAndSteps) {
  std::string sum = "1";
  for (int i = 0; i < 5000; ++i) {
    sum += "+1";
  }
  EXPECT_THAT(error_of(sum), HasSubstr("more than 4096 parts"));
  EXPECT_THAT(error_of(std::string(100, '(') + "1" + std::string(100, ')')),
              HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(error_of(std::string(5000, '-') + "1"), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(error_of("range(10 ** 9)"), HasSubstr("more than 1000000 items"));
  EXPECT_THAT(error_of("[1, 2] * 10 ** 12"), HasSubstr("more than 1000000 items"));
  EXPECT_THAT(error_of("len([[1 for j in range(900)] for i in range(1000)] + [1] * 99900)"),
              HasSubstr("more than 1000000 items"));
  EXPECT_THAT(error_of("[len([1 for k in items if 0]) for items in [range(9000)] * 9000]"),
              HasSubstr("more than 20000000 steps"));
}

}  // namespace
}  // namespace swr::kernel_spec

// Sources with pragmas as people write them: comments, continued lines, attributes, namespaces,
// scalars that are no sizes, and what must be refused rather than lost.

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
  for (const char* const no :
       {"1 && 0", "0 && X", "!1", "(2 > 3) || !defined swr_tune", "1 - 1",
        "defined(kernel_tuner) && !defined ( __CUDACC__ )", "0x10 == 17", "1 ? 0 : X"}) {
    EXPECT_THAT(spellings("#if " + std::string(no) + "\na\n#else\nb\n#endif"), ElementsAre("b"))
        << no;
  }
  EXPECT_THAT(spellings("#if 0\na\n#elif 1 || X\nb\n#elif X\nc\n#endif"), ElementsAre("b"));
  for (const char* const unknown : {"X", "__CUDA_ARCH__ >= 700", "defined(X) || 0", "(0", "0 0",
                                    "__has_include(<a.h>)", "F(0)", "'0'", ""}) {
    EXPECT_THAT(spellings("#if " + std::string(unknown) + "\na\n#else\nb\n#endif"),
                ElementsAre("a", "b"))
        << unknown;
  }
  EXPECT_THAT(spellings("#endif\n#else\na"), Contains("a")) << "without an #if";
}

TEST_F(Pragmas, HasAllDirectivesOfKernelLauncher) {
  const std::string text =
      "#pragma kernel tune(lanes = 2, 4, 8) default(4)\n"
      "#pragma kernel set(twice = max(lanes, 2) * 2, last = twice - 1)\n"
      "#pragma kernel problem_dim(rows) block_dim(lanes, 2) grid_divisors(twice, last)\n"
      "#pragma kernel restrictions(last < 15, lanes > 1)\n"
      "#pragma kernel buffers(out[rows], in[rows])\n";
  EXPECT_EQ(points(text + kKernel), 2);
  const KernelPlan plan = planned(text + "#pragma kernel grid_dim(last)\n" + kKernel);
  Point point;
  plan.fill(point, std::vector{1000}, plan.usual_choice());
  EXPECT_EQ(plan.launch(plan.steps().front(), point).grid[0], 7U);
}

TEST_F(Pragmas, SizesOfTypesAreNumbers) {
  const std::string text =
      "using real = half;\n"
      "#pragma kernel tune(lanes = 2, 4) tune(T = float, double) set(V = float4)\n"
      "#pragma kernel problem_size(rows) block_size(lanes) buffers(out[rows])\n"
      "#pragma kernel set(row = lanes * sizeof(T)) restriction((int) row <= 16)\n"
      "#pragma kernel shared_memory(row + sizeof( V ) + sizeof(U) + sizeof(real*))\n"
      "template <typename T, typename V, typename U = real>\n"
      "__global__ void f(float* out, int rows) {}\n";
  EXPECT_EQ(points(text), 3);
  const KernelPlan plan = planned(text);
  Point point;
  plan.fill(point, std::vector{1000}, std::vector{0, 1});
  EXPECT_EQ(plan.launch(plan.steps().front(), point).shared_bytes, 2 * 8 + 16 + 2 + 8);
  const auto with = [&](const std::string& shared) {
    return refusal(std::string(kPragmas) + "#pragma kernel shared_memory(" + shared + ")\n" +
                   kKernel);
  };
  EXPECT_THAT(with("sizeof(Particle)"), HasSubstr("'Particle'"));
  EXPECT_THAT(with("4 * sizeof out"), HasSubstr("write sizeof(TYPE)"));
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
  EXPECT_EQ(entry("namespace [[deprecated]] a __attribute__((visibility(\"default\"))) {\n",
                  "__global__ void scale"),
            "a::scale");
  EXPECT_EQ(entry("",
                  "__global__ void scale(float* out, const float* in, int rows) "
                  "__launch_bounds__(64);\n__global__ void scale"),
            "scale");
  EXPECT_EQ(entry("", "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) scale"),
            "scale");
  EXPECT_EQ(entry("",
                  "template <int A = (1 << 4), bool L = (4 > 3), int B = 2>\n"
                  "__global__ void scale"),
            "scale<(1 << 4), (4 > 3), 2>");
  EXPECT_EQ(
      entry("", "template <typename T, typename = If<sizeof(T) == 4>>\n__global__ void scale"),
      "scale<float, If<sizeof(float) == 4>>");
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

TEST_F(Pragmas, AttributesWithoutAnEndTakeNoTime) {
  std::string open;
  for (int i = 0; i < 100'000; ++i) {
    open += "[[";
  }
  EXPECT_EQ(kernels_of("namespace " + open + "a { __global__ void f(); }\n", "k.cu").kernels.size(),
            1U);
}

TEST_F(Pragmas, NamesOfTypesAreLookedUp) {
  const auto types = [&](const std::string& before) {
    const KernelSpec spec =
        read(before + kPragmas + "__global__ void scale(R* OUT out, const R* OUT in, I rows) {}\n");
    return spec.arguments[0].type + "; " + spec.arguments[2].type;
  };
  EXPECT_EQ(types("#define OUT __restrict__\n#define R float\nusing I = int;\n"),
            "float* __restrict__; int");
  EXPECT_EQ(types("#define OUT\ntypedef long long int J;\ntypedef J I;\nusing R = double;\n"),
            "double* ; long long int");
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           planned(
                               "#define OUT\nusing I = int;\n#ifdef A\nusing R = float;\n#else\n"
                               "using R = double;\n#endif\n" +
                               std::string(kPragmas) +
                               "__global__ void scale(R* out, const R* in, I rows) {}\n");
                         }),
              HasSubstr("'R*' is no type of an argument"))
      << "what a condition decides is asked";
  const KernelSpec tuned =
      read("#ifndef R\n#define R float\n#endif\n#pragma kernel tune(R = float, half)\n" +
           std::string(kPragmas) + "__global__ void scale(R* out, const R* in, int rows) {}\n");
  EXPECT_EQ(tuned.arguments[0].type, "R*") << "a parameter names it";
}

TEST_F(Pragmas, ValuesAreConstantsOfC) {
  const KernelSpec spec =
      read("#pragma kernel tune(a = 1 << 4, 2 * 32, default(0x10), \"x, y\", Tile<8, 4>, float)\n" +
           std::string(kPragmas) + kKernel);
  EXPECT_THAT(spec.parameters[0].values, ElementsAre("16", "64", "x, y", "Tile<8, 4>", "float"));
  EXPECT_EQ(spec.parameters[0].usual, "16");
  EXPECT_THAT(read("#pragma kernel tune(a = 64u, 0.5f)\n" + std::string(kPragmas) + kKernel)
                  .parameters[0]
                  .values,
              ElementsAre("64", "0.5f"))
      << "a real number keeps its type";
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

namespace swr::kernel_spec {
namespace {

SpaceAxis axis(const std::string& name, const std::string& values) {
  ValueHeap heap;
  return {name, *Expression(values, Dialect::python).evaluate({}, heap).list};
}

SpaceCondition condition(const std::string& text) {
  return {text, Expression(text, Dialect::python)};
}

long long sum_of(const std::vector<DroppedPoints>& dropped) {
  long long sum = 0;
  for (const DroppedPoints& one : dropped) {
    sum += one.points;
  }
  return sum;
}

std::vector<SpaceAxis> hotspot_axes() {
  return {axis("block_size_x", "[1, 2, 4, 8, 16] + [32*i for i in range(1, 33)]"),
          axis("block_size_y", "[2**i for i in range(6)]"),
          axis("tile_size_x", "list(range(1, 11))"),
          axis("tile_size_y", "list(range(1, 11))"),
          axis("temporal_tiling_factor", "list(range(1, 11))"),
          axis("loop_unroll_factor_t", "list(range(1, 11))"),
          axis("sh_power", "[0, 1]"),
          axis("blocks_per_sm", "[0, 1, 2, 3, 4]")};
}

std::vector<SpaceCondition> hotspot_conditions() {
  const std::string bytes =
      "(block_size_x*tile_size_x + temporal_tiling_factor*2) * "
      "(block_size_y*tile_size_y + temporal_tiling_factor*2) * (2+sh_power) * 4";
  return {condition("block_size_x*block_size_y >= 32"),
          condition("temporal_tiling_factor % loop_unroll_factor_t == 0"),
          condition("block_size_x*block_size_y <= 1024"), condition(bytes + " <= 49152"),
          condition("blocks_per_sm == 0 or (" + bytes + ") * blocks_per_sm <= 102400")};
}

// 349,853 is what Kernel Tuner's own tests expect of this space.
TEST(Space, ListsTheLargestPublishedHotspotSpace) {
  const Space space(hotspot_axes(), hotspot_conditions(), {});
  EXPECT_EQ(space.raw_points(), 22'200'000);
  EXPECT_EQ(space.points(), 349'853);
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
  EXPECT_LT(space.checks(), 2'000'000);
}

TEST(Space, HasTheSamePointsAsTryingAll) {
  const std::vector<SpaceAxis> axes{axis("a", "list(range(12))"), axis("b", "list(range(9))"),
                                    axis("c", "[1, 2, 4]"), axis("d", "[0.5, 2]")};
  const Space space(
      axes, {condition("a % c == 0"), condition("d == 2 or c > 1"), condition("a + 1 > 0")}, {});
  std::set<std::vector<int>> found;
  for (long long i = 0; i < space.points(); ++i) {
    EXPECT_TRUE(found.insert(space.at(i)).second) << i;
  }
  const int c_values[] = {1, 2, 4};
  std::set<std::vector<int>> expected;
  for (int a = 0; a < 12; ++a) {
    for (int b = 0; b < 9; ++b) {
      for (int c = 0; c < 3; ++c) {
        for (int d = 0; d < 2; ++d) {
          if (a % c_values[c] == 0 && (d == 1 || c > 0)) {
            expected.insert({a, b, c, d});
          }
        }
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
}

TEST(Space, CombinesPartsWithoutListingTheirProduct) {
  std::vector<SpaceAxis> axes;
  std::vector<SpaceCondition> conditions;
  for (const char* const name : {"a", "b", "c"}) {
    axes.push_back(axis(name, "list(range(1, 1001))"));
    conditions.push_back(condition(std::string(name) + " % 2 == 0"));
  }
  const Space space(axes, conditions, {});
  EXPECT_EQ(space.raw_points(), 1'000'000'000);
  EXPECT_EQ(space.points(), 125'000'000);
  EXPECT_EQ(space.checks(), 3000);
  EXPECT_THAT(space.at(0), ElementsAre(1, 1, 1));
  EXPECT_THAT(space.at(space.points() - 1), ElementsAre(999, 999, 999));
  EXPECT_EQ(sum_of(space.dropped()), space.raw_points() - space.points());
}

TEST(Space, DropsPointsWhereAConditionHasNoValue) {
  const Space space({axis("a", "[0, 1, 2]")}, {condition("4 // a == 4")}, {});
  EXPECT_EQ(space.points(), 1);
  EXPECT_THAT(space.errors().front(), HasSubstr("division by zero"));
}

TEST(Space, DropsAllWhereAConditionOverConstantsFails) {
  const std::vector<NamedValue> constants{{"n", Value::of(5LL)}};
  const Space space({axis("a", "[0, 1, 2]")}, {condition("n > 7")}, constants);
  EXPECT_EQ(space.points(), 0);
  EXPECT_EQ(space.dropped().front().points, 3);
}

/// As spaces of generated kernels are: most parameters follow from others.
TEST(Space, IsWalkedWhereTheRawProductIsBeyondAnyCount) {
  std::vector<SpaceAxis> axes;
  std::vector<SpaceCondition> conditions;
  constexpr int kAxes = 50;
  for (int i = 0; i < kAxes; ++i) {
    axes.push_back(axis("p" + std::to_string(i), "[1, 2, 4, 8]"));
    if (i >= 2) {
      conditions.push_back(condition("p" + std::to_string(i) + " == p" + std::to_string(i % 2)));
    }
  }
  const Space space(axes, conditions, {});
  EXPECT_EQ(space.raw_points(), std::numeric_limits<long long>::max()) << "4^50";
  ASSERT_EQ(space.points(), 16);
  EXPECT_LT(space.checks(), 10'000);
  const std::vector<int> last = space.at(15);
  for (int i = 0; i < kAxes; ++i) {
    EXPECT_EQ(last[static_cast<std::size_t>(i)], 3);
  }
  EXPECT_EQ(std::ranges::max(space.dropped(), {}, &DroppedPoints::points).points,
            std::numeric_limits<long long>::max());
}

TEST(Space, RefusesWhatIsBeyondItsLimits) {
  const SpaceAxis thousand = axis("a", "list(range(1000))");
  const SpaceAxis other = axis("b", "list(range(1000))");
  EXPECT_THAT(error_text([&] {
                Space({thousand, other}, {condition("a + b > 0")}, {}, {.checks = 1000});
              }),
              HasSubstr("more than 1000 conditions"));
  EXPECT_THAT(error_text([&] {
                Space({thousand, other}, {condition("a + b > 0")}, {}, {.listed_points = 10});
              }),
              HasSubstr("more than 10 points"));
  EXPECT_THAT(error_text([&] { Space(std::vector(7, thousand), {}, {}); }), HasSubstr("2^62"));
  EXPECT_THAT(error_text([&] { Space({thousand}, {condition("c > 0")}, {}); }),
              HasSubstr("unknown name 'c'"));
}

}  // namespace
}  // namespace swr::kernel_spec
