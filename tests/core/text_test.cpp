// SPDX-License-Identifier: MIT
// Texts: tables, numbers, what may be printed, names of headers, digests, the nearest word.
#include "core/header_names.h"
#include "core/json.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "core/reject.h"
#include "core/sha256.h"
#include "core/text_table.h"
#include "tests/support/test.h"

namespace swr {
namespace {
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

TEST(Printable, LeavesTextsOfEveryLanguageAlone) {
  for (const std::string text :
       {"", "NVIDIA H200", "Grafikprozessor für Büros", "显卡", "🙂 €"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_line(text), text);
  }
}

TEST(Printable, TakesCommandsToTerminalsApart) {
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J"), "?]0;title??[2J");
  EXPECT_EQ(printable("a\rb\bc\x7f"), "a?b?c?");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?"
            "?2J");
}

TEST(Printable, TakesMarksThatHideWhatIsWrittenApart) {
  EXPECT_EQ(printable("a\u202etxt.exe"), "a???txt.exe");
  EXPECT_EQ(printable("a\u2066b\u200bc\ufeff"), "a???b???c???");
}

TEST(Printable, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "?2J");
  EXPECT_EQ(printable("caf\xe9"), "caf?");
  EXPECT_EQ(printable("\xe2\x82"), "??");
  EXPECT_EQ(printable("\xc0\x9b"), "??");            // Escape in two bytes.
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");       // Half a surrogate pair.
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");  // Beyond the last character.
}

TEST(Printable, KeepsLinesOfLogsButNotOfNames) {
  EXPECT_EQ(printable("one\n\ttwo"), "one\n\ttwo");
  EXPECT_EQ(printable_line("one\n\ttwo"), "one??two");
}

TEST(Printable, IsWhatReadersOfFilesReturn) {
  EXPECT_EQ(json_text(Json{{"detail", "\x1b[2Jlog\n"}}, "detail"), "?[2Jlog\n");
  const DeviceInfo device{.name = "F1\nbest: \x1b[1mmine",
                          .sm_arch = 90,
                          .sm_count = 1,
                          .l2_bytes = 1,
                          .dram_gb_per_s = 1.0};
  EXPECT_EQ(Json(device).get<DeviceInfo>().name, "F1?best: ?[1mmine");
}

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  const std::string same = with_header_paths(text, [&](const HeaderName& name) {
    names.push_back((name.is_next     ? "next "
                     : name.is_quoted ? "q "
                                      : "a ") +
                    std::string(name.text));
    return "";
  });
  EXPECT_EQ(same, text);
  return names;
}

TEST(HeaderNames, AreFoundHoweverADirectiveIsWritten) {
  EXPECT_THAT(names_in("#include \"a.h\"\nx<y>z\n  #  include <b/c.h>\r\n"),
              ElementsAre("q a.h", "a b/c.h"));
  EXPECT_THAT(names_in("#inc\\\nlude \\\r\n\"a.h\"\n\"b.h\"\n"), ElementsAre("q a.h"));
  EXPECT_THAT(names_in("%:define A <a.h>"), ElementsAre("a a.h"));
  EXPECT_THAT(names_in("# include_next \t<a.h>\n#include_next\"b.h\""),
              ElementsAre("next a.h", "next b.h"));
  EXPECT_THAT(names_in("#if 1 < 2 && __has_include(<a.h>)"), ::testing::Contains("a a.h"));
  EXPECT_THAT(names_in("#include \"a.h\n#include <>\n#include \"\"\n#"), IsEmpty());
}

TEST(HeaderNames, ArePutInTheirPlaces) {
  const auto shout = [](const HeaderName& name) {
    return name.text == "a" ? "long/A" : std::string();
  };
  EXPECT_EQ(with_header_paths("#include \"a\" // \"a\" <b>\nf(\"a\");\n#include <a>", shout),
            "#include \"long/A\" // \"long/A\" <b>\nf(\"a\");\n#include <long/A>");
}

TEST(HeaderNames, TakeNoTimeInTextsMadeOfQuotes) {
  for (const char* const part : {"\"a", "<", "#<a>\n", "\\\n"}) {
    std::string text = "#";
    while (text.size() < std::size_t{16} << 20) {
      text += part;
    }
    int asked = 0;
    EXPECT_EQ(with_header_paths(text, [&](const HeaderName&) { return ++asked, std::string(); }),
              text);
    EXPECT_LE(asked, 65'536);
  }
}

TEST(HeaderNames, HavePlacesBelowTheFolderAlone) {
  const std::vector<std::string> folders{"inc"};
  EXPECT_THAT(header_places({"b.h", true}, "a/k.cu", folders),
              ElementsAre("a/b.h", "b.h", "inc/b.h"));
  EXPECT_THAT(header_places({"b.h", false}, "a/k.cu", folders), ElementsAre("b.h", "inc/b.h"));
  EXPECT_THAT(header_places({"../b.h", true}, "a/k.cu", folders), ElementsAre("b.h", "b.h"));
  const HeaderName next{"b.h", true, true};
  EXPECT_THAT(header_places(next, "b.h", folders), ElementsAre("inc/b.h"));
  EXPECT_THAT(header_places(next, "inc/b.h", folders), IsEmpty());
  EXPECT_THAT(header_places(next, "k.cu", folders), ElementsAre("b.h", "inc/b.h"));
  for (const char* const outside : {"/etc/passwd", "../../x", "a/../../x", "..", ".", "a/.."}) {
    EXPECT_THAT(header_places({outside, true}, "k.cu", {}), IsEmpty()) << outside;
  }
}

// FIPS 180-2, appendix B.
TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string_view()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("tune", "tune"), 0U);
  EXPECT_EQ(edit_distance("", "tune"), 4U);
  EXPECT_EQ(edit_distance("tune", ""), 4U);
  EXPECT_EQ(edit_distance("qurey", "query"), 1U);
  EXPECT_EQ(edit_distance("causl", "causal"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  // Edits after a swap do not touch its letters again: three, where Damerau's distance is two.
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);
}

TEST(EditDistance, IsTheSameInBothDirections) {
  const std::vector<std::string> words{"tune", "query", "export", "explain", "devices", "db"};
  for (const std::string& one : words) {
    for (const std::string& other : words) {
      EXPECT_EQ(edit_distance(one, other), edit_distance(other, one)) << one << " " << other;
    }
  }
}

TEST(NearestWord, IsTheOneWithTheFewestMistakes) {
  const std::vector<std::string> words{"tune", "query", "export", "explain"};
  EXPECT_EQ(nearest_word("qurey", words), "query");
  EXPECT_EQ(nearest_word("exprot", words), "export");
  EXPECT_EQ(nearest_word("explian", words), "explain");
}

TEST(NearestWord, CompletesWhatOnlyOneWordBeginsWith) {
  const std::vector<std::string> words{"--seq", "--seq-kv", "--section-heads"};
  EXPECT_EQ(nearest_word("--sec", words), "--section-heads");
}

TEST(NearestWord, IsNoneForAWordUnlikeAll) {
  const std::vector<std::string> words{"tune", "query"};
  EXPECT_EQ(nearest_word("benchmark", words), std::nullopt);
  EXPECT_EQ(nearest_word("x", words), std::nullopt);
  EXPECT_EQ(nearest_word("tune", std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace swr
