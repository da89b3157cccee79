// SPDX-License-Identifier: MIT
#include "tuner/live/live_server.h"

#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <httplib.h>
#include <string>

namespace swr {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

int port_of(const LiveServer& server) {
  const std::string url = server.url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

TEST(LiveServer, ServesThePageAndAFreshState) {
  int asked = 0;
  const LiveServer server(
      "<p>page</p>", [&asked] { return std::to_string(++asked); }, 0);
  EXPECT_THAT(server.url(), StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(server.url(), EndsWith("/"));
  httplib::Client client("127.0.0.1", port_of(server));
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->body, "<p>page</p>");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(client.Get("/state")->body, "1");
  EXPECT_EQ(client.Get("/state")->body, "2");
  EXPECT_EQ(client.Get("/elsewhere")->status, 404);
}

TEST(LiveServer, RefusesWhoNamesItOtherwise) {
  const LiveServer server(
      "page", [] { return std::string("secret"); }, 0);
  httplib::Client client("127.0.0.1", port_of(server));
  const auto answer = client.Get("/state", {{"Host", "somebody.example"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 403);
  EXPECT_EQ(answer->body, "");
}

TEST(LiveServer, SaysWhenAPortIsTaken) {
  const LiveServer first(
      "page", [] { return std::string(); }, 0);
  const int port = port_of(first);
  try {
    const LiveServer second(
        "page", [] { return std::string(); }, port);
    FAIL() << "two servers share port " << port_of(second);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(port)));
  }
}

}  // namespace
}  // namespace swr
