// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/expression.h"

#include "tests/support/test.h"

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

TEST(Expression, HasPythonsPrecedence) {
  EXPECT_EQ(text_of("-2 ** 2"), "-4");
  EXPECT_EQ(text_of("2 ** -1"), "0.5");
  EXPECT_EQ(text_of("2 ** 3 ** 2"), "512");
  EXPECT_EQ(text_of("-7 // 2 * 2 + -7 % 2"), "-7");
  EXPECT_EQ(text_of("not 1 == 2"), "True");
  EXPECT_EQ(text_of("1 if 0 else 2 if 0 else 3"), "3");
}

TEST(Expression, ReturnsTheOperandThatDecides) {
  EXPECT_EQ(text_of("0 or 5"), "5");
  EXPECT_EQ(text_of("3 and 0.0"), "0.0");
  EXPECT_EQ(text_of("0 and 1 // 0"), "0");
}

TEST(Expression, ChainsComparisons) {
  EXPECT_EQ(text_of("32 <= block_size_x * 2 <= 1024"), "True");
  EXPECT_EQ(text_of("3 > 2 > 1"), "True");
  EXPECT_EQ(text_of("(3 > 2) > 1"), "False");
}

TEST(Expression, MakesLists) {
  EXPECT_EQ(text_of("[1, 2, 4] + list(range(32, 97, 32))"), "[1, 2, 4, 32, 64, 96]");
  EXPECT_EQ(text_of("[2**i for i in range(4) if i != 1]"), "[1, 4, 8]");
  EXPECT_EQ(text_of("[[i * j for i in range(j)] for j in range(3)]"), "[[], [0], [0, 2]]");
  EXPECT_EQ(text_of("max([3, 9, 4])"), "9");
  EXPECT_EQ(text_of("block_size_x in [32, 64]"), "True");
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
  EXPECT_THAT(error_of("n.real"), HasSubstr("column 2: '.' is no operator"));
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
