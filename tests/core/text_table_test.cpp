// SPDX-License-Identifier: MIT
#include "core/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Align = TextTable::Align;

TextTable sample() {
  TextTable table({{"rank"},
                   {"order", Align::left},
                   {.title = "registers", .leave_out = 1},
                   {.title = "sectors", .leave_out = 2},
                   {"time"},
                   {"provenance", Align::left}});
  table.add_row({"1", "sawtooth", "128", "107.5 M", "1.000 ms", "predicted"});
  table.add_row({"2", "cyclic", "96", "110.0 M", "1.250 ms", "predicted"});
  return table;
}

std::string printed(const TextTable& table, const TableStyle& style = {}) {
  std::ostringstream out;
  table.print(out, style);
  return out.str();
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

TEST(TextTable, HasColumnsAsWideAsTheirWidestCellAndNoSpacesAtTheEnd) {
  EXPECT_EQ(printed(sample()),
            "rank  order     registers  sectors      time  provenance\n"
            "   1  sawtooth        128  107.5 M  1.000 ms  predicted\n"
            "   2  cyclic           96  110.0 M  1.250 ms  predicted\n");
}

TEST(TextTable, IsTheSameInAWideTerminalAsInAFile) {
  EXPECT_EQ(printed(sample(), {.width = 56}), printed(sample()));
}

TEST(TextTable, SaysOnceWhatIsTheSameInAllRows) {
  EXPECT_EQ(printed(sample(), {.width = 55}),
            "in all rows: provenance predicted\n"
            "rank  order     registers  sectors      time\n"
            "   1  sawtooth        128  107.5 M  1.000 ms\n"
            "   2  cyclic           96  110.0 M  1.250 ms\n");
}

TEST(TextTable, LeavesColumnsOutInTheirOrderAndNamesThem) {
  const std::string one_less = printed(sample(), {.width = 40});
  EXPECT_THAT(one_less, HasSubstr("rank  order     sectors      time\n"));
  EXPECT_THAT(one_less, HasSubstr("too wide for this terminal: registers\n"));
  const std::string two_less = printed(sample(), {.width = 30});
  EXPECT_THAT(two_less, HasSubstr("rank  order         time\n"));
  EXPECT_THAT(two_less, HasSubstr("terminal:\n  registers, sectors\n"));
}

TEST(TextTable, NeverLeavesOutWhatHasToStay) {
  EXPECT_THAT(printed(sample(), {.width = 10}), HasSubstr("   1  sawtooth  1.000 ms\n"));
}

TEST(TextTable, FitsEveryWidthThatItsColumnsAllow) {
  for (std::size_t width = 26; width <= 60; ++width) {
    EXPECT_LE(longest_line(printed(sample(), {.width = width})), width);
  }
}

TEST(TextTable, BreaksCellsThatMayGoOnInTheNextLine) {
  TextTable table(
      {{"axis", Align::left}, {.title = "meaning", .align = Align::left, .wraps = true}});
  table.add_row({"stages", "tiles of K and V that are on their way at once"});
  table.add_row({"warps", "of a CTA"});
  EXPECT_EQ(printed(table, {.width = 34}),
            "axis    meaning\n"
            "stages  tiles of K and V that are\n"
            "        on their way at once\n"
            "warps   of a CTA\n");
}

TEST(TextTable, HighlightsTheFirstRowAlone) {
  const std::string text = printed(sample(), {.first_row_begin = "<", .first_row_end = ">"});
  EXPECT_THAT(text, HasSubstr("\n<   1  sawtooth"));
  EXPECT_THAT(text, HasSubstr("predicted>\n   2"));
}

TEST(Wrap, BreaksAtSpacesAndKeepsLongWordsWhole) {
  EXPECT_THAT(wrap("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("a,b,c,d,e,f,g,h one", 7), ElementsAre("a,b,c,d,e,f,g,h", "one"));
  EXPECT_THAT(wrap("a,b,c,d,e,f,g,h", 7), ElementsAre("a,b,c,d,e,f,g,h"));
  EXPECT_THAT(wrap("key a,b,c,d,e,f,g,h one two", 7),
              ElementsAre("key a,b,c,d,e,f,g,h", "one two"));
  EXPECT_THAT(wrap("short", 0), ElementsAre("short"));
  EXPECT_THAT(wrap("", 7), ElementsAre(""));
}

TEST(Wrap, IndentsWhatFollowsAndKeepsTheEndOfTheText) {
  EXPECT_EQ(wrap_lines("  the first line is long\nshort\n", 26),
            "  the first line is long\nshort\n");
  EXPECT_EQ(wrap_lines("  the first line is very long\nshort", 25),
            "  the first line is\n    very long\nshort");
  EXPECT_EQ(wrap_lines("any\nlength of line", 0), "any\nlength of line");
  EXPECT_THAT(wrap_lines("a\n\nb\n", 30), Not(HasSubstr("a\nb")));
}

}  // namespace
}  // namespace swr
