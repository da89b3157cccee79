// SPDX-License-Identifier: MIT
#include "core/header_names.h"

#include <gmock/gmock.h>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  const std::string same = with_header_paths(text, [&](const HeaderName& name) {
    names.push_back((name.is_quoted ? "q " : "a ") + std::string(name.text));
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
  EXPECT_THAT(names_in("#if 1 < 2 && __has_include(<a.h>)"), testing::Contains("a a.h"));
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
  for (const char* const outside : {"/etc/passwd", "../../x", "a/../../x", "..", ".", "a/.."}) {
    EXPECT_THAT(header_places({outside, true}, "k.cu", {}), IsEmpty()) << outside;
  }
}

}  // namespace
}  // namespace swr
