// SPDX-License-Identifier: MIT
// What the live view reads and keeps.
#include "core/files.h"
#include "tests/support/test.h"
#include "tuner/live/live_server.h"
#include "tuner/live/live_state.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace swr {
namespace {

Json state_after(const std::vector<std::string>& lines) {
  LiveState state;
  for (const std::string& line : lines) {
    state.take(line);
  }
  return state.snapshot();
}

const std::string kStart =
    R"({"event":"start","device":{"name":"Fictional One"},"provenance":"measured",)"
    R"("title":"a problem","variants":4,"at":100.5})";

TEST(LiveState, FollowsARunFromItsStartToItsEnd) {
  const Json state = state_after(
      {kStart, R"({"event":"variant","done":1,"key":"a","state":"ok","time_us":12.0,"known":true})",
       R"({"event":"best","done":1,"key":"a","time_us":12.0})",
       R"({"event":"variant","done":2,"key":"b","state":"timeout","time_us":null,"known":false})",
       R"({"event":"variant","done":3,"key":"c","state":"ok","time_us":10.0,"at":107.0})",
       R"({"event":"best","done":3,"key":"c","time_us":10.0})",
       R"({"event":"phase","doing":"deciding"})"});
  const Json& run = state["runs"][0];
  EXPECT_EQ(run["title"], "a problem");
  EXPECT_EQ(run["device"], "Fictional One");
  EXPECT_TRUE(run["gpu"].is_null());
  EXPECT_EQ(run["variants"], 4);
  EXPECT_EQ(run["done"], 3);
  EXPECT_EQ(run["known"], 1);
  EXPECT_EQ(run["failed"]["timeout"], 1);
  EXPECT_EQ(run["phase"], "deciding");
  EXPECT_EQ(run["best_key"], "c");
  EXPECT_EQ(run["times_us"], (Json{{1, 12.0}, {3, 10.0}}));
  EXPECT_EQ(run["bests_us"], (Json{{1, 12.0}, {3, 10.0}}));
  EXPECT_EQ(run["started_at"], 100.5);
  EXPECT_EQ(run["changed_at"], 107.0);
  EXPECT_FALSE(run["is_over"].get<bool>());
  EXPECT_EQ(state["finished"], 0);
}

TEST(LiveState, TakesTheDecisionOfTheFinalsForTheBest) {
  const Json state = state_after(
      {kStart, R"({"event":"best","done":1,"key":"a","time_us":12.0})",
       R"({"event":"finals","finalists":[]})",
       R"({"event":"end","best":"b","time_us":11.5,"total_s":9.0,"interrupted":false})"});
  EXPECT_EQ(state["runs"][0]["best_key"], "b");
  EXPECT_TRUE(state["runs"][0]["is_over"].get<bool>());
  EXPECT_EQ(state["finished"], 1);
  EXPECT_EQ(state["last"][0]["best_us"], 11.5);
  EXPECT_EQ(state["last"][0]["total_s"], 9.0);
}

TEST(LiveState, KeepsTheRunsOfSeveralGpusApart) {
  const Json state = state_after(
      {R"({"event":"start","title":"one","variants":2,"gpu":0})",
       R"({"event":"start","title":"two","variants":3,"gpu":1})",
       R"({"event":"variant","done":1,"state":"ok","time_us":5.0,"gpu":1})",
       R"({"event":"end","best":null,"time_us":null,"total_s":1.0,"interrupted":true,"gpu":0})",
       R"({"event":"start","title":"three","variants":9,"gpu":0})"});
  ASSERT_EQ(state["runs"].size(), 2U);
  EXPECT_EQ(state["runs"][0]["gpu"], 0);
  EXPECT_EQ(state["runs"][0]["title"], "three");
  EXPECT_EQ(state["runs"][0]["done"], 0);
  EXPECT_EQ(state["runs"][1]["title"], "two");
  EXPECT_EQ(state["runs"][1]["done"], 1);
  EXPECT_TRUE(state["last"][0]["is_interrupted"].get<bool>());
  EXPECT_TRUE(state["last"][0]["best_us"].is_null());
}

TEST(LiveState, CountsWhatItCannotReadAndGoesOn) {
  const Json state = state_after({"no JSON", "[1, 2]", R"({"event":"of a newer swr"})",
                                  R"({"event":"variant","done":"many","time_us":{}})", kStart});
  EXPECT_EQ(state["unread"], 3);
  EXPECT_EQ(state["runs"][0]["variants"], 4);
}

TEST(LiveState, TakesNoMoreThanAnEventHolds) {
  std::string many = "{\"event\":\"start\"";
  for (int i = 0; i < 70'000; ++i) {
    many += ",\"k" + std::to_string(i) + "\":1";
  }
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const Json state = state_after({deep, R"({"event":"start","title":)" + deep + "}", many + "}",
                                  R"({"event":"end","event":"start"})",
                                  "{\"event\":\"" + std::string(2 << 20, 'x') + "\"}", kStart,
                                  R"({"event":"variant","done":1e300,"state":"ok","time_us":2})"});
  EXPECT_EQ(state["unread"], 5);
  EXPECT_EQ(state["runs"][0]["done"], 1);
}

TEST(LiveState, HoldsNoMoreGpusAndStatesThanThereAre) {
  LiveState live;
  for (int i = 0; i < 3000; ++i) {
    const std::string number = std::to_string(i);
    live.take(R"({"event":"variant","gpu":)" + number + "}");
    live.take(R"({"event":"variant","gpu":0,"state":"s)" + number + R"("})");
  }
  const Json state = live.snapshot();
  EXPECT_EQ(state["runs"].size(), 1024U);
  EXPECT_EQ(state["unread"], 3000 - 1024);
  EXPECT_EQ(state["runs"][0]["failed"].size(), 33U);
  EXPECT_EQ(state["runs"][0]["failed"]["other"], 3000 - 32);
}

TEST(LiveState, HoldsLittleOfLongTexts) {
  const std::string megabyte(1 << 19, 'x');
  LiveState state;
  for (int gpu = 0; gpu < 20; ++gpu) {
    const std::string begin = R"({"gpu":)" + std::to_string(gpu) + R"(,"event":)";
    state.take(begin + R"("start","title":")" + megabyte + R"("})");
    state.take(begin + R"("start","problem":{"m":")" + megabyte + R"("}})");
    state.take(begin + R"("variant","state":")" + megabyte + R"("})");
    state.take(begin + R"("phase","doing":")" + megabyte + R"("})");
    state.take(begin + R"("end","best":")" + megabyte + R"("})");
  }
  EXPECT_LT(state.snapshot().dump().size(), std::size_t{1} << 18);
}

TEST(LiveState, HoldsSoManyTimesOfAllRuns) {
  constexpr std::size_t kMost = std::size_t{1} << 18;
  LiveState state;
  for (std::size_t i = 0; i < kMost + 100; ++i) {
    state.take(R"({"event":"variant","time_us":1.5,"gpu":)" + std::to_string(i % 7) + "}");
  }
  std::size_t held = 0;
  const Json full = state.snapshot();
  for (const Json& run : full["runs"]) {
    held += run["times_us"].size();
  }
  EXPECT_EQ(held, kMost);
  state.take(R"({"event":"start","gpu":0})");
  state.take(R"({"event":"variant","time_us":1.5,"gpu":1})");
  EXPECT_GT(state.snapshot()["runs"][1]["times_us"].size(), kMost / 7);
}

TEST(LiveState, ShowsTheNewestFirstAndNotAll) {
  LiveState state;
  for (int i = 0; i < 60; ++i) {
    state.take(R"({"event":"start","title":"p)" + std::to_string(i) + R"(","variants":1})");
    state.take(R"({"event":"end","best":"k","time_us":1.0})");
  }
  const Json shown = state.snapshot();
  EXPECT_EQ(shown["finished"], 60);
  EXPECT_EQ(shown["last"].size(), 50U);
  EXPECT_EQ(shown["last"][0]["title"], "p59");
}

class Following : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(::testing::TempDir()) / ("swr_live_" + std::string(test->name()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    file_ = dir_ / "events.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }

  std::filesystem::path dir_;
  std::filesystem::path file_;
};

TEST_F(Following, HasNoNewsBeforeTheFileIsThere) {
  EventFollower follower(file_);
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append("one\n");
  const auto news = follower.read();
  EXPECT_THAT(news.lines, ElementsAre("one"));
  EXPECT_FALSE(news.is_new_file);
}

TEST_F(Following, HandsOutWholeLinesOnce) {
  EventFollower follower(file_);
  append("one\ntwo\nthr");
  EXPECT_THAT(follower.read().lines, ElementsAre("one", "two"));
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append("ee\n");
  EXPECT_THAT(follower.read().lines, ElementsAre("three"));
}

TEST_F(Following, ALineTooLongForAnEventIsNotKept) {
  EventFollower follower(file_);
  append("one\n");
  follower.read();
  append(std::string(3'000'000, 'x'));
  EXPECT_THAT(follower.read().lines, IsEmpty());
  append(std::string(3'000'000, 'x') + "\ntwo\n" + std::string(2'000'000, 'y') + "\nthree\n");
  std::vector<std::string> lines;
  for (bool is_more = true; is_more;) {
    const auto news = follower.read();
    lines.insert(lines.end(), news.lines.begin(), news.lines.end());
    is_more = news.is_more;
  }
  EXPECT_THAT(lines, ElementsAre("", "two", "", "three"));
}

TEST_F(Following, HasNoNewsOfAFileThatCannotBeRead) {
  std::filesystem::create_symlink("/proc/self/mem", file_);
  EXPECT_THAT(EventFollower(file_).read().lines, IsEmpty());
}

TEST_F(Following, WaitsForNoPipe) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(EventFollower(file_).read().lines, IsEmpty());
}

TEST_F(Following, NoticesAFileThatBeganAnew) {
  EventFollower follower(file_);
  append("one\ntwo\nbegun");
  follower.read();
  std::ofstream(file_) << "new\n";
  const auto news = follower.read();
  EXPECT_TRUE(news.is_new_file);
  EXPECT_THAT(news.lines, ElementsAre("new"));
  EXPECT_FALSE(follower.read().is_new_file);
}

TEST_F(Following, NoticesAnotherFileOfTheSameNameAndLength) {
  EventFollower follower(file_);
  append("old\n");
  follower.read();
  std::ofstream(dir_ / "other") << "new\n";
  std::filesystem::rename(dir_ / "other", file_);
  const auto news = follower.read();
  EXPECT_TRUE(news.is_new_file);
  EXPECT_THAT(news.lines, ElementsAre("new"));
}

TEST_F(Following, ReadsALongFileInParts) {
  constexpr std::size_t kLines = 200'000;
  const std::string line = std::string(39, 'x') + "\n";
  {
    std::ofstream out(file_);
    for (std::size_t i = 0; i < kLines; ++i) {
      out << line;
    }
  }
  EventFollower follower(file_);
  std::size_t lines = 0;
  std::size_t parts = 0;
  for (bool is_more = true; is_more; ++parts) {
    const auto news = follower.read();
    lines += news.lines.size();
    is_more = news.is_more;
  }
  EXPECT_EQ(lines, kLines);
  EXPECT_GT(parts, 1U);
}

TEST_F(Following, TakesAFolderForNoFile) {
  EventFollower follower(dir_);
  EXPECT_THAT(follower.read().lines, SizeIs(0));
}

namespace fs = std::filesystem;

class QueueFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(::testing::TempDir()) / ("swr_queue_" + std::string(test->name()));
    fs::remove_all(dir_);
    for (const char* folder : {"open", "leased", "done"}) {
      fs::create_directories(dir_ / "queue" / folder);
    }
    std::ofstream(dir_ / "queue" / "list") << "first\nsecond\nthird\n";
  }
  void TearDown() override { fs::remove_all(dir_); }

  void touch(const std::string& path) { std::ofstream(dir_ / path) << ""; }

  fs::path dir_;
};

TEST_F(QueueFolder, CountsPiecesAndNamesWhoHasThem) {
  touch("queue/open/000002");
  touch("queue/leased/000001~host-17-4");
  touch("queue/done/000000");
  const Json queue = queue_json(dir_);
  EXPECT_EQ(queue["pieces"], 3);
  EXPECT_EQ(queue["open"], 1);
  EXPECT_EQ(queue["done"], 1);
  ASSERT_EQ(queue["leased"].size(), 1U);
  EXPECT_EQ(queue["leased"][0]["piece"], "second");
  EXPECT_EQ(queue["leased"][0]["worker"], "host-17-4");
  EXPECT_LT(queue["leased"][0]["silent_s"].get<double>(), 600.0);
}

TEST_F(QueueFolder, SaysForHowLongAWorkerGaveNoSign) {
  touch("queue/leased/000000~gone");
  fs::last_write_time(dir_ / "queue/leased/000000~gone",
                      fs::file_time_type::clock::now() - std::chrono::seconds(500));
  EXPECT_NEAR(queue_json(dir_)["leased"][0]["silent_s"].get<double>(), 500.0, 60.0);
}

TEST_F(QueueFolder, WaitsForNoPipeAndReadsNoDevice) {
  touch("queue/leased/000001~host-17-4");
  for (const bool is_pipe : {true, false}) {
    fs::remove(dir_ / "queue/list");
    if (is_pipe) {
      ASSERT_EQ(mkfifo((dir_ / "queue/list").c_str(), 0600), 0);
    } else {
      fs::create_symlink("/dev/zero", dir_ / "queue/list");
    }
    const Json queue = queue_json(dir_);
    EXPECT_EQ(queue["pieces"], 0);
    EXPECT_EQ(queue["leased"][0]["piece"], "000001");
  }
}

TEST_F(QueueFolder, IsNullWithoutAQueue) {
  EXPECT_TRUE(queue_json(dir_ / "queue").is_null());
  EXPECT_TRUE(queue_json(dir_ / "nowhere").is_null());
}

TEST_F(QueueFolder, FindsFilesOfEventsByName) {
  touch("b.jsonl");
  touch("a.jsonl");
  touch("tuned.db");
  const auto files = event_files(dir_);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].filename(), "a.jsonl");
  EXPECT_TRUE(event_files(dir_ / "nowhere").empty());
}

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
  constexpr std::chrono::seconds kDeadlineOfClients{5};
  EXPECT_LT(std::chrono::steady_clock::now() - start, kDeadlineOfClients);
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
