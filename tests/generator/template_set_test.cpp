// SPDX-License-Identifier: MIT
#include "generator/template_set.h"

#include "core/operation.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace swr {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

std::vector<std::string> paths_of(const std::vector<TemplateFile>& files) {
  std::vector<std::string> paths;
  for (const TemplateFile& file : files) {
    paths.emplace_back(file.path);
  }
  return paths;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(TemplateSet, EmbedsEveryFileOfTheTemplatesFoldersUnchanged) {
  const TemplateSet set = TemplateSet::built_in();
  for (const std::filesystem::path root : {SWR_TEMPLATES_DIR, SWR_WRITTEN_TEMPLATES_DIR}) {
    int checked = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cuh" || extension == ".cu") {
        const std::string path = entry.path().lexically_relative(root).generic_string();
        EXPECT_EQ(set.text(path), read(entry.path())) << path;
        ++checked;
      }
    }
    EXPECT_GE(checked, 1) << root;
  }
}

TEST(TemplateSet, ServesThePublicHeadersThatKernelsInclude) {
  EXPECT_THAT(TemplateSet::built_in().paths(),
              IsSupersetOf({"swr/annotations.h", "swr/attention_params.h", "swr/axes.h"}));
}

TEST(TemplateSet, HoldsTheKernelOfEveryFamily) {
  for (const Operation* const operation : operations()) {
    for (const FamilySource& source : operation->families()) {
      EXPECT_THAT(TemplateSet::built_in().text(source.file), HasSubstr(source.entry))
          << source.file;
    }
  }
}

TEST(TemplateSet, ClosureListsIncludesOnceInOrder) {
  const TemplateSet set =
      TemplateSet::built_in()
          .with("a.cu", "#include \"b.h\"\n  #  include <c.h>\n#include \"b.h\"")
          .with("b.h", "#include <c.h>\n#include \"d.h\"\r\n")
          .with("c.h", "#include \"a.cu\"\n#include <cuda_fp16.h>\n")
          .with("d.h", "// #include \"nowhere.h\"\n");
  EXPECT_THAT(paths_of(set.closure("a.cu")), ElementsAre("a.cu", "b.h", "c.h", "d.h"));
}

TEST(TemplateSet, NamesTheFileWhoseIncludeIsMissing) {
  const TemplateSet set = TemplateSet::built_in().with("a.cu", "#include \"nowhere.h\"\n");
  const std::string message = message_of(ErrorCode::not_found, [&] { set.closure("a.cu"); });
  EXPECT_THAT(message, HasSubstr("'a.cu' includes \"nowhere.h\""));
}

TEST(TemplateSet, ListsWhatThereIsWhenATemplateIsMissing) {
  const std::string message =
      message_of(ErrorCode::not_found, [] { TemplateSet::built_in().text("nowhere.cu"); });
  EXPECT_THAT(message, HasSubstr("nowhere.cu"));
  EXPECT_THAT(message, HasSubstr("attention/config.h"));
}

TEST(TemplateSet, ClosureDigestChangesWithWhatIsIncludedAndNothingElse) {
  const TemplateSet set = TemplateSet::built_in()
                              .with("a.cu", "#include \"b.h\"\n")
                              .with("b.h", "int b;\n")
                              .with("unrelated.h", "int x;\n");
  const std::string digest = set.closure_digest("a.cu");
  EXPECT_EQ(set.with("unrelated.h", "int y;\n").closure_digest("a.cu"), digest);
  EXPECT_NE(set.with("b.h", "int c;\n").closure_digest("a.cu"), digest);
  EXPECT_NE(set.with("unrelated.h", "int y;\n").digest(), set.digest());
}

TEST(TemplateSet, OverlayShadowsAndAddsFiles) {
  const TempDirectory overlay;
  overlay.write("attention/config.h", "// mine\n");
  overlay.write("extra/reference.cu", "// added\n");
  overlay.write("notes.txt", "not a template\n");
  const TemplateSet set = TemplateSet::overlaid(overlay.path());
  EXPECT_EQ(set.text("attention/config.h"), "// mine\n");
  EXPECT_EQ(set.text("extra/reference.cu"), "// added\n");
  EXPECT_EQ(set.text("common/attention_schedule.h"),
            TemplateSet::built_in().text("common/attention_schedule.h"));
  EXPECT_EQ(set.paths().size(), TemplateSet::built_in().paths().size() + 1);
  EXPECT_NE(set.digest(), TemplateSet::built_in().digest());
}

TEST(TemplateSet, AnEmptyOverlayChangesNothing) {
  const TempDirectory overlay;
  EXPECT_EQ(TemplateSet::overlaid(overlay.path()).digest(), TemplateSet::built_in().digest());
}

TEST(TemplateSet, RejectsAnOverlayThatIsNoDirectory) {
  const TempDirectory parent;
  const auto file = parent.write("file", "");
  EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { TemplateSet::overlaid(file); }),
              HasSubstr("is no directory"));
  EXPECT_THAT(
      message_of(ErrorCode::unreadable, [&] { TemplateSet::overlaid(parent.path() / "missing"); }),
      HasSubstr("does not exist"));
}

TEST(TemplateSet, ParsesIncludeLines) {
  const auto quoted = parse_include("\t# include\t\"a/b.h\" // why");
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->path, "a/b.h");
  EXPECT_TRUE(quoted->quoted);
  const auto angled = parse_include("#include<swr/axes.h>\r");
  ASSERT_TRUE(angled);
  EXPECT_EQ(angled->path, "swr/axes.h");
  EXPECT_FALSE(angled->quoted);
  for (const char* line : {"", "#", "include \"a.h\"", "#include a.h", "#include \"a.h",
                           "#define x", "// #include \"a.h\"", "#pragma once"}) {
    EXPECT_FALSE(parse_include(line)) << line;
  }
}

}  // namespace
}  // namespace swr
