// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"

#include "tests/support/temp_directory.h"
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <sys/stat.h>

namespace swr {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// {"k0":0,"k1":1,..}
std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i) {
    text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  }
  return text + "}";
}

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unreadable);
    return error.what();
  }
  return "no error";
}

std::string error_in(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "in.json", limits); });
}

TEST(BoundedJson, ReadsWhatTheParserReads) {
  for (const std::string text :
       {R"({"z":1,"a":[true,null,-2,18446744073709551615,2.5,"x\u00e9"],"":{}})", "[]", "\"text\"",
        "7", R"([{"b":[[],[1]]},{"b":{"a":1,"c":{}}}])"}) {
    EXPECT_EQ(parse_json(text, "in.json").dump(), Json::parse(text).dump());
    const Json document = Json::parse(text);
    const auto bytes = Json::to_cbor(document);
    EXPECT_EQ(parse_cbor({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "frame"),
              document);
  }
  const Json binary = Json::binary({0, 255, 3});
  const auto bytes = Json::to_cbor(binary);
  EXPECT_EQ(parse_cbor({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "frame"),
            binary);
}

TEST(BoundedJson, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}x", "nul", "\"\xff\"", "1e999", "[1}"}) {
    EXPECT_THAT(error_in(text), HasSubstr("in.json is not JSON (line ")) << text;
  }
  EXPECT_EQ(error_in("{\n  \"a\": 1,\n  // why\n}"),
            "in.json is not JSON (line 3, column 3: comments are no JSON)");
  EXPECT_EQ(error_in("[1,\n2"), "in.json is not JSON (line 2, column 1: it ends too early)");
  EXPECT_EQ(error_in("[1,\n 2 3]"), "in.json is not JSON (line 2, column 4)");
  EXPECT_THAT(error_of([] { parse_cbor("\x9f\x01", "frame"); }),
              HasSubstr("frame is not CBOR (byte"));
}

TEST(BoundedJson, RefusesDeepNestingInTextAndBinary) {
  constexpr std::size_t kDeep = 200'000;
  EXPECT_THAT(error_in(repeated("[", kDeep) + repeated("]", kDeep)),
              AllOf(HasSubstr("in.json"), HasSubstr("more than 64 deep")));
  EXPECT_THAT(error_in(repeated("{\"a\":", kDeep) + "1" + repeated("}", kDeep)),
              HasSubstr("more than 64 deep"));
  EXPECT_THAT(error_of([] { parse_cbor(repeated("\x81", kDeep) + "\x01", "frame"); }),
              HasSubstr("more than 64 deep"));
  EXPECT_NO_THROW(parse_json(repeated("[", 64) + repeated("]", 64), "in.json"));
}

TEST(BoundedJson, RefusesKeysThatAreThereTwice) {
  EXPECT_THAT(error_in(R"({"a":1,"b":2,"a":3})"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(error_in(R"([{"a":{"x":1,"x":1}}])"), HasSubstr("the key 'x' twice"));
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":{"a":1}}])", "in.json"));
}

TEST(BoundedJson, NamesEveryOtherLimit) {
  EXPECT_THAT(error_in("[1,2,3]", {.bytes = 6}), HasSubstr("longer than 6 bytes"));
  EXPECT_THAT(error_in("[1,2,3]", {.values = 3}), HasSubstr("more than 3 values"));
  EXPECT_THAT(error_in(object_of(3), {.keys = 2}), HasSubstr("more than 2 keys"));
  EXPECT_NO_THROW(parse_json("[1,2,3]", "in.json", {.bytes = 7, .values = 4}));
  EXPECT_NO_THROW(parse_json(object_of(2), "in.json", {.keys = 2}));
  // A length that is only announced costs no memory.
  EXPECT_THAT(error_of([] { parse_cbor("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", "frame"); }),
              HasSubstr("is not CBOR"));
}

/// 8 s before: every key was looked for among all earlier ones, and growing copied what was below.
TEST(BoundedJson, TakesTimeInProportionToTheKeys) {
  std::string text = object_of(50'000);
  for (int level = 0; level < 20; ++level) {
    text = "{\"more\":" + text + "," + object_of(1000).substr(1);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "in.json").size(), 1001U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(BoundedJson, ReadsRegularFilesOnly) {
  const TempDirectory directory;
  EXPECT_EQ(read_json_file(directory.write("in.json", "[1]")), Json({1}));
  const auto error_at = [&](const char* name) {
    return error_of([&] { read_json_file(directory / name, {.bytes = 3}); });
  };
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_at("pipe"), AllOf(HasSubstr("pipe"), HasSubstr("is no regular file")));
  EXPECT_THAT(error_at("."), HasSubstr("is no regular file"));
  directory.write("long.json", "[1,2]");
  EXPECT_THAT(error_at("long.json"), AllOf(HasSubstr("long.json"), HasSubstr("3 bytes")));
  try {
    read_json_file(directory / "none.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr("none.json"));
  }
}

}  // namespace
}  // namespace swr
