// SPDX-License-Identifier: MIT
#include "core/number_text.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(NumberText, KeepsSignificantDigitsAndAllDigitsBeforeThePoint) {
  EXPECT_EQ(significant_text(1.23456, 4), "1.235");
  EXPECT_EQ(significant_text(12.3456, 4), "12.35");
  EXPECT_EQ(significant_text(123456.0, 4), "123456");
  EXPECT_EQ(significant_text(0.0, 4), "0.000");
  EXPECT_EQ(significant_text(0.25, 3), "0.25");
}

TEST(NumberText, AValueEndsWithTheFirstDigitOfItsError) {
  EXPECT_EQ(uncertain_text(80.15, 0.08), "80 ± 6");
  EXPECT_EQ(uncertain_text(640.2, 0.05), "640 ± 32");
  EXPECT_EQ(uncertain_text(1.234, 0.05), "1.23 ± 0.06");
  EXPECT_EQ(uncertain_text(80.15, 0.0), "80.15");
}

TEST(NumberText, SeparatesThousands) {
  EXPECT_EQ(grouped_text(0), "0");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(grouped_text(1000), "1,000");
  EXPECT_EQ(grouped_text(107478656), "107,478,656");
  EXPECT_EQ(grouped_text(-1234567), "-1,234,567");
  EXPECT_EQ(grouped_text(-123), "-123");
}

TEST(NumberText, ScalesLargeCountsAndKeepsSmallOnesExact) {
  EXPECT_EQ(count_text(9999), "9,999");
  EXPECT_EQ(count_text(107478656), "107.5 M");
  EXPECT_EQ(count_text(1719093980), "1.719 G");
}

TEST(NumberText, ChoosesTheUnitOfTime) {
  EXPECT_EQ(time_text(12.345), "12.35 us");
  EXPECT_EQ(time_text(1234.5), "1.234 ms");
  EXPECT_EQ(time_text(2.5e6), "2.500 s");
}

TEST(NumberText, ChoosesTheUnitOfBytes) {
  EXPECT_EQ(bytes_text(25165824), "24.00 MiB");
  EXPECT_EQ(bytes_text(512), "512.0 B");
}

TEST(NumberText, SignsAChangeAndHasNoneFromZero) {
  EXPECT_EQ(change_text(200, 100), "-50.0 %");
  EXPECT_EQ(change_text(100, 150), "+50.0 %");
  EXPECT_EQ(change_text(0, 5), "-");
}

}  // namespace
}  // namespace swr
