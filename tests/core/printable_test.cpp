// SPDX-License-Identifier: MIT
#include "core/printable.h"

#include "core/json.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

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

}  // namespace
}  // namespace swr
