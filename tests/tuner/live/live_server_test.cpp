// SPDX-License-Identifier: MIT
#include "tuner/live/live_server.h"

#include "core/files.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace swr {
namespace {

int port_of(const LiveServer& server) {
  const std::string url = server.url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

FileDescriptor connected_to(const LiveServer& server) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_of(server)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void say(const FileDescriptor& socket, const std::string& text) {
  send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

/// What the server says until it closes the connection.
std::string heard_from(const FileDescriptor& socket) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t count = 1; count > 0;) {
    count = recv(socket.get(), bytes.data(), bytes.size(), 0);
    text.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return text;
}

/// The answer to a request's line and further headers, under the server's own name.
std::string answer(const LiveServer& server, const std::string& line,
                   const std::string& headers = "") {
  const FileDescriptor socket = connected_to(server);
  say(socket, line + " HTTP/1.1\r\nhOST:  127.0.0.1:" + std::to_string(port_of(server)) + " \r\n" +
                  headers + "\r\n");
  return heard_from(socket);
}

TEST(LiveServer, ServesThePageAndAFreshState) {
  int asked = 0;
  const LiveServer server(
      "<p>page</p>", [&asked] { return std::to_string(++asked); }, 0);
  EXPECT_THAT(server.url(), StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(server.url(), EndsWith("/"));
  const std::string page = answer(server, "GET /");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, EndsWith("\r\n\r\n<p>page</p>"));
  EXPECT_THAT(page, HasSubstr("Content-Length: 11\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(answer(server, "GET /state"), EndsWith("\r\n\r\n1"));
  EXPECT_THAT(answer(server, "GET /state?again"), EndsWith("\r\n\r\n2"));
  EXPECT_THAT(answer(server, "GET /elsewhere"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer(server, "POST /state", "Content-Length: 9\r\n"), StartsWith("HTTP/1.1 405"));
}

TEST(LiveServer, RefusesWhoNamesItOtherwise) {
  const LiveServer server(
      "page", [] { return std::string("secret"); }, 0);
  const std::string ours = "Host: 127.0.0.1:" + std::to_string(port_of(server)) + "\r\n";
  for (const std::string& headers :
       {std::string("Host: somebody.example\r\n"), std::string(), ours + ours,
        "Host: somebody.example\r\n" + ours, std::string("Host: 127.0.0.1\r\n"),
        std::string("X-Host: ") + ours}) {
    const FileDescriptor socket = connected_to(server);
    say(socket, "GET /state HTTP/1.1\r\n" + headers + "\r\n");
    const std::string heard = heard_from(socket);
    EXPECT_THAT(heard, StartsWith("HTTP/1.1 403")) << headers;
    EXPECT_THAT(heard, Not(HasSubstr("secret")));
  }
}

TEST(LiveServer, AnswersAnErrorOfTheState) {
  const LiveServer server(
      "page", []() -> std::string { throw std::runtime_error("no state"); }, 0);
  EXPECT_THAT(answer(server, "GET /state"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(answer(server, "GET /"), EndsWith("page"));
}

/// In KiB, the most this process has had.
long long peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(LiveServer, NoRequestTakesMemoryOrLong) {
  const LiveServer server(
      std::string(1 << 20, 'p'), [] { return std::string(); }, 0);
  const long long before = peak_memory();
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 2000; ++i) {
    ranges += ",0-";
  }
  EXPECT_THAT(answer(server, "GET /", ranges + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer(server, "GET /", "X: " + std::string(1 << 20, 'x') + "\r\n"),
              AnyOf(StartsWith("HTTP/1.1 431"), ""));  // Or it was closed while that was sent.
  answer(
      server, "POST /",
      "Content-Encoding: gzip\r\nContent-Length: 9000000\r\n\r\n" + std::string(9'000'000, '\x1f'));
  constexpr long long kMostKib = 64 * 1024;
  EXPECT_LT(peak_memory() - before, kMostKib);
}

TEST(LiveServer, SlowAndIdleClientsKeepNobodyOut) {
  const LiveServer server(
      "page", [] { return std::string("state"); }, 0);
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(connected_to(server));
    say(idle.back(), "GET / HTT");
  }
  EXPECT_THAT(answer(server, "GET /state"), EndsWith("state"));
  std::size_t descriptors = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++descriptors;
  }
  EXPECT_LT(descriptors, idle.size() + 40);  // The server's side has 16.
}

TEST(LiveServer, EndsAtOnceWhateverClientsDo) {
  auto server = std::make_unique<LiveServer>(
      std::string(64 << 20, 'p'), [] { return std::string(); }, 0);
  const FileDescriptor begun = connected_to(*server);
  say(begun, "GET /state HTTP/1.1\r\nX: ");
  const FileDescriptor deaf = connected_to(*server);
  say(deaf, "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_of(*server)) + "\r\n\r\n");
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(LiveServer, ASlowRequestHasADeadline) {
  const LiveServer server(
      "page", [] { return std::string(); }, 0);
  const FileDescriptor slow = connected_to(server);
  say(slow, "G");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(heard_from(slow), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(LiveServer, SaysWhenAPortIsTaken) {
  const LiveServer first(
      "page", [] { return std::string(); }, 0);
  const int port = port_of(first);
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           const LiveServer second(
                               "page", [] { return std::string(); }, port);
                         }),
              HasSubstr(std::to_string(port)));
}

}  // namespace
}  // namespace swr
