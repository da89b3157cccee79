// SPDX-License-Identifier: MIT
#include "tuner/distribute/work_queue.h"

#include "tests/support/test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

using std::chrono::milliseconds;

bool never() { return false; }

class WorkQueueTest : public ::testing::Test {
 protected:
  std::unique_ptr<WorkQueue> join(const std::string& worker, int pieces = 3,
                                  milliseconds lease = milliseconds(60'000)) const {
    std::vector<std::string> work;
    for (int i = 0; i < pieces; ++i) {
      work.push_back("piece " + std::to_string(i));
    }
    return std::make_unique<WorkQueue>(
        WorkQueue::Options{.directory = directory_ / "shared", .worker = worker, .lease = lease},
        work);
  }

  /// Gives up after a while, which tells waiting for ever from an answer.
  static std::optional<std::size_t> claim_within(WorkQueue& queue, milliseconds limit,
                                                 bool* was_stopped = nullptr) {
    const auto until = std::chrono::steady_clock::now() + limit;
    return queue.claim([&] {
      const bool is_over = std::chrono::steady_clock::now() > until;
      if (was_stopped != nullptr) {
        *was_stopped |= is_over;
      }
      return is_over;
    });
  }

  std::filesystem::path queue() const { return directory_ / "shared" / "queue"; }
  void put(const std::string& name, const std::string& text) const {
    directory_.write(std::filesystem::path("shared") / "queue" / name, text);
  }

  TempDirectory directory_;
};

TEST_F(WorkQueueTest, HandsOutEachPieceOnceInOrder) {
  const auto a = join("a");
  const auto b = join("b");
  EXPECT_EQ(a->claim(never), 0U);
  EXPECT_EQ(b->claim(never), 1U);
  EXPECT_TRUE(a->finish());
  EXPECT_EQ(a->claim(never), 2U);
  EXPECT_TRUE(a->finish());
  EXPECT_TRUE(b->finish());
  EXPECT_EQ(a->claim(never), std::nullopt);
  EXPECT_EQ(b->claim(never), std::nullopt);
  EXPECT_EQ(join("late")->claim(never), std::nullopt);
}

TEST_F(WorkQueueTest, GivesBackWhatAWorkerLeavesUnfinished) {
  {
    const auto a = join("a", 1);
    EXPECT_EQ(a->claim(never), 0U);
  }
  EXPECT_EQ(join("b", 1)->claim(never), 0U);
}

TEST_F(WorkQueueTest, WaitsForOthersOnlyUntilItIsToStop) {
  const auto a = join("a", 1);
  const auto b = join("b", 1);
  EXPECT_EQ(a->claim(never), 0U);
  int asked = 0;
  EXPECT_EQ(b->claim([&] { return ++asked > 1; }), std::nullopt);
  EXPECT_EQ(asked, 2);
}

TEST_F(WorkQueueTest, ReturnsThePieceOfAWorkerThatWasKilled) {
  constexpr milliseconds kLease(300);
  const pid_t child = fork();
  if (child == 0) {
    const auto dying = join("dying", 1, kLease);
    _exit(dying->claim(never) == 0U ? raise(SIGKILL) : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto heir = join("heir", 1, kLease);
  EXPECT_EQ(heir->claim(never), 0U);
  EXPECT_TRUE(heir->finish());
  EXPECT_EQ(heir->claim(never), std::nullopt);
}

TEST_F(WorkQueueTest, ALivingWorkerKeepsItsPieceBeyondOneLease) {
  constexpr milliseconds kLease(300);
  const auto slow = join("slow", 1, kLease);
  EXPECT_EQ(slow->claim(never), 0U);
  const auto eager = join("eager", 1, kLease);
  const auto until = std::chrono::steady_clock::now() + 4 * kLease;
  EXPECT_EQ(eager->claim([&] { return std::chrono::steady_clock::now() > until; }), std::nullopt);
  EXPECT_TRUE(slow->finish());
}

TEST_F(WorkQueueTest, SaysThatALeaseWasLost) {
  const auto suspended = join("suspended", 1);
  EXPECT_EQ(suspended->claim(never), 0U);
  const auto leased = directory_ / "shared" / "queue" / "leased";
  std::filesystem::rename(leased / "000000~suspended", leased / "000000~heir");
  EXPECT_FALSE(suspended->finish());
}

TEST_F(WorkQueueTest, ManyWorkersAtOnceShareTheWorkWithoutLossOrRepetition) {
  constexpr int kWorkers = 8;
  constexpr int kPieces = 60;
  std::vector<std::atomic<int>> done(kPieces);
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < kWorkers; ++i) {
      workers.emplace_back([&, i] {
        const auto queue = join("worker" + std::to_string(i), kPieces);
        while (const auto place = queue->claim(never)) {
          ++done[*place];
          queue->finish();
        }
      });
    }
  }
  const std::vector<int> counts(done.begin(), done.end());
  EXPECT_THAT(counts, Each(1));
}

TEST_F(WorkQueueTest, LeavesAloneWhatIsNoPieceOfItsList) {
  const auto a = join("a", 2);
  for (const char* name :
       {"open/999999", "open/.DS_Store", "open/.nfs0001", "open/000002", "open/0", "open/000000~a",
        "leased/000007~dead", "leased/000001", "leased/.DS_Store", "leased/~dead", "done/.DS_Store",
        "done/.nfs0002", "done/999999", "done/000000~dead"}) {
    put(name, "");
  }
  std::filesystem::create_directory(queue() / "leased" / "000001~folder");
  EXPECT_EQ(claim_within(*a, milliseconds(5000)), 0U);
  EXPECT_TRUE(a->finish());
  EXPECT_EQ(claim_within(*a, milliseconds(5000)), 1U);
  EXPECT_TRUE(a->finish());
  bool was_stopped = false;
  EXPECT_EQ(claim_within(*a, milliseconds(5000), &was_stopped), std::nullopt);
  EXPECT_FALSE(was_stopped);
  EXPECT_TRUE(std::filesystem::exists(queue() / "open" / "999999"));
}

TEST_F(WorkQueueTest, ReportsPiecesThatVanishedAndThoseNobodySaysAreDone) {
  constexpr milliseconds kLease(300);
  const auto a = join("a", 3, kLease);
  EXPECT_EQ(a->claim(never), 0U);
  EXPECT_TRUE(a->finish());
  std::filesystem::remove(queue() / "open" / "000001");
  std::filesystem::rename(queue() / "open" / "000002", queue() / "done" / "000002");
  const std::string message =
      message_of(ErrorCode::unreadable, [&] { claim_within(*a, 20 * kLease); });
  EXPECT_THAT(message, HasSubstr("has lost 2 of 3 pieces"));
  EXPECT_THAT(message, HasSubstr("000001 (piece 1)"));
}

TEST_F(WorkQueueTest, TakesALeaseThatIsDatedInTheFuture) {
  constexpr milliseconds kLease(300);
  const auto a = join("a", 1, kLease);
  std::filesystem::rename(queue() / "open" / "000000", queue() / "leased" / "000000~ahead");
  std::filesystem::last_write_time(
      queue() / "leased" / "000000~ahead",
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1000));
  EXPECT_EQ(claim_within(*a, 20 * kLease), 0U);
}

TEST_F(WorkQueueTest, DoesNotWaitForThePipeInPlaceOfItsList) {
  join("a");
  std::filesystem::remove(queue() / "list");
  ASSERT_EQ(mkfifo((queue() / "list").c_str(), 0600), 0);
  EXPECT_THROW(join("b"), Error);
}

TEST_F(WorkQueueTest, RefusesAnotherListAndAPlaceItCannotUse) {
  join("a", 3);
  try {
    join("b", 4);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("another list"));
  }
  EXPECT_THROW(WorkQueue({.directory = "/proc/none", .worker = "a"}, {"piece"}), Error);
}

TEST_F(WorkQueueTest, IsPublishedWholeOrNotAtAll) {
  for (const char* const folder : {"open", "leased", "done"}) {
    // A file in the place of a folder, which then cannot be made.
    directory_.write(std::filesystem::path("shared") / "draft~a" / folder, "");
    EXPECT_THROW(join("a"), Error) << folder;
    EXPECT_FALSE(std::filesystem::exists(queue())) << folder;
  }
  EXPECT_EQ(join("a")->claim(never), 0U);
}

TEST(WorkerName, IsNoOtherProcesses) {
  EXPECT_NE(worker_name(), worker_name());
  EXPECT_EQ(worker_name().find_first_of("~/"), std::string::npos);
}

}  // namespace
}  // namespace swr
