// SPDX-License-Identifier: MIT
#include "tuner/supervise/frame.h"

#include <swr/error.h>

#include <gtest/gtest.h>

#include <limits>

namespace swr {
namespace {

TEST(Frame, CarriesBytesNumbersAndTextsOfAnyEncoding) {
  Json document = {{"text", "bad \xff utf-8"},
                   {"infinite", std::numeric_limits<double>::infinity()}};
  document["bytes"] = Json::binary({0, 1, 255});
  document["third"] = 1.0 / 3.0;
  FrameReader reader;
  reader.add(encode_frame(document));
  EXPECT_EQ(reader.next(), document);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(Frame, IsPutTogetherFromSinglesBytesAndSplitFromItsNeighbour) {
  const std::string two = encode_frame({{"n", 1}}) + encode_frame({{"n", 2}});
  FrameReader reader;
  std::vector<Json> documents;
  for (const char byte : two) {
    reader.add({&byte, 1});
    if (auto document = reader.next()) {
      documents.push_back(*document);
    }
  }
  EXPECT_EQ(documents, (std::vector<Json>{{{"n", 1}}, {{"n", 2}}}));
  reader.add(two);
  EXPECT_EQ(reader.next()->at("n"), 1);
  EXPECT_EQ(reader.next()->at("n"), 2);
}

TEST(Frame, ThatIsNoneIsRefused) {
  FrameReader nonsense;
  nonsense.add(std::string("\0\0\0\2\xff\xff", 6));
  EXPECT_THROW(nonsense.next(), Error);
  FrameReader boundless;  // A list of 2^63 values.
  boundless.add(std::string("\0\0\0\x9\x9b\x80\0\0\0\0\0\0\0", 13));
  EXPECT_THROW(boundless.next(), Error);
  FrameReader endless;
  endless.add("\xff\xff\xff\xff");
  EXPECT_THROW(endless.next(), Error);
}

}  // namespace
}  // namespace swr
