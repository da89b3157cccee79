// SPDX-License-Identifier: MIT
#include "tuner/cli/command_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace swr::cli {
namespace {

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
}  // namespace swr::cli
