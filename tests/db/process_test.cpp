// SPDX-License-Identifier: MIT
// Databases that several processes use, and the files that SQLite keeps beside them.
#include "tests/db/edited_file.h"
#include "tests/db/fixtures.h"
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {
/// Runs `body` in a child process, which exits without running any destructor of its parent's.
template <typename Body>
pid_t in_child(Body&& body) {
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  try {
    body();
  } catch (const std::exception& failure) {
    std::fputs(failure.what(), stderr);
    _exit(1);
  }
  _exit(0);
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void record_many(const std::filesystem::path& path, int first_seq, int count) {
  Store store(path, Store::Mode::read_write);
  const long long run = store.begin_run(some_run());
  for (int i = 0; i < count; ++i) {
    store.record(run, problem_of(first_seq + i), fictional_gpu(), measured(tile(64, 64), 10.0));
  }
}

TEST(Processes, WriteOneDatabaseAtTheSameTimeWithoutLosingARow) {
  constexpr int kProcesses = 3;
  constexpr int kRows = 40;
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  std::vector<pid_t> children;
  children.reserve(kProcesses);
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(in_child([&] { record_many(path, 1000 * (i + 1), kRows); }));
  }
  for (const pid_t child : children) {
    EXPECT_EQ(status_of(child), 0);
  }
  EXPECT_EQ(Store(path, Store::Mode::read_only).winners().size(),
            static_cast<std::size_t>(kProcesses * kRows));
}

TEST(Processes, CreateOneDatabaseAtTheSameTime) {
  constexpr int kRounds = 10;
  constexpr int kProcesses = 4;
  const TempDirectory directory;
  for (int round = 0; round < kRounds; ++round) {
    const auto path = directory / ("tuned" + std::to_string(round) + ".db").c_str();
    std::vector<pid_t> children;
    children.reserve(kProcesses);
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(in_child([&] { record_many(path, 1000 * (i + 1), 1); }));
    }
    for (const pid_t child : children) {
      EXPECT_EQ(status_of(child), 0);
    }
    EXPECT_EQ(Store(path, Store::Mode::read_only).winners().size(), 4U);
  }
}

/// What a program asks of swr before it forks, and in the child: a handler from before swr's.
std::function<void()> at_fork = [] {};
[[maybe_unused]] const int has_handlers =
    pthread_atfork([] { at_fork(); }, [] {}, [] { at_fork(); });

TEST(Processes, AreForkedWhileThreadsReadAndReadToo) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  record_many(path, 64, 20);
  Lookup shared(path);
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&, refreshes = i % 2 == 0] {
      while (!is_over) {
        refreshes ? static_cast<void>(shared.refresh()) : static_cast<void>(Lookup{path});
      }
    });
  }
  alarm(300);
  at_fork = [&] { shared.refresh(); };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(status_of(in_child([&] {
                alarm(100);
                Lookup{path};
                shared.refresh();
              })),
              0);
  }
  at_fork = [] {};
  alarm(0);
  is_over = true;
}

TEST(Processes, ThatDieAfterACommitChangeNothing) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  record_many(path, 64, 1);
  std::array<int, 2> committed{};
  ASSERT_EQ(pipe(committed.data()), 0);
  const pid_t child = in_child([&] {
    Store store(path, Store::Mode::read_write);
    store.begin_run(some_run());
    EXPECT_EQ(write(committed[1], "x", 1), 1);
    pause();
  });
  char byte = 0;
  ASSERT_EQ(read(committed[0], &byte, 1), 1);
  Lookup lookup(path);
  EXPECT_FALSE(lookup.refresh());
  kill(child, SIGKILL);
  status_of(child);
  EXPECT_FALSE(lookup.refresh());  // SQLite makes the log's index anew meanwhile.
}

TEST(Processes, ThatChangeTheirFolderStillReadTheFile) {
  const TempDirectory directory;
  record_many(directory / "tuned.db", 64, 1);
  EXPECT_EQ(status_of(in_child([&] {
              std::filesystem::current_path(std::string(directory.path()));
              Lookup lookup("tuned.db");
              std::filesystem::current_path("/");
              record_many(directory / "tuned.db", 128, 1);
              lookup.refresh() && lookup.size() == 2 ? _exit(0) : _exit(2);
            })),
            0);
}

TEST(Processes, WhatWasRecordedSurvivesAKill) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  const pid_t child = in_child([&] {
    Store store(path, Store::Mode::read_write);
    const long long run = store.begin_run(some_run());
    for (int i = 0; i < 3; ++i) {
      store.record(run, problem_of(64 + i), fictional_gpu(), measured(tile(64, 64), 10.0));
    }
    raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  EXPECT_EQ(Store(path, Store::Mode::read_only).winners().size(), 3U);
  record_many(path, 1000, 1);
  EXPECT_EQ(Store(path, Store::Mode::read_only).winners().size(), 4U);
}

TEST(Processes, AKillInsideATransactionLeavesTheLastCommit) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  record_many(path, 64, 2);
  const pid_t child = in_child([&] {
    SQLite::Database database(path.string(), SQLite::OPEN_READWRITE);
    const SQLite::Transaction open(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec("DELETE FROM sample; DELETE FROM result");
    raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  EXPECT_EQ(Store(path, Store::Mode::read_write).winners().size(), 2U);
}

TEST(Processes, ADatabaseLeftByAKilledWriterIsNotReadPartlyFromAReadOnlyDirectory) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  const pid_t child = in_child([&] {
    Store store(path, Store::Mode::read_write);
    store.record(store.begin_run(some_run()), problem_of(64), fictional_gpu(),
                 measured(tile(64, 64), 10.0));
    raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  std::filesystem::remove(path.string() + "-shm");
  chmod(directory.path().c_str(), 0555);
  const WithoutPrivileges nobody;
  const Error error = error_of([&] { Store(path, Store::Mode::read_only); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("-wal"));
}

namespace fs = std::filesystem;

class CompanionTest : public ::testing::Test {
 protected:
  CompanionTest() {
    Store store(path_, Store::Mode::read_write);
    store.record(store.begin_run(some_run()), problem_of(4096), fictional_gpu(),
                 measured(tile(64, 64), 10.0));
  }
  fs::path beside(const std::string& ending) const { return path_.string() + ending; }
  void write(const std::string& ending, const std::string& bytes) const {
    std::ofstream(beside(ending), std::ios::binary) << bytes;
  }
  void expect_refused(Store::Mode mode, const std::string& cause) const {
    const Error error = error_of([&] { Store(path_, mode).winners(); });
    EXPECT_EQ(error.code(), ErrorCode::unreadable);
    EXPECT_THAT(error.what(), HasSubstr(cause));
  }
  void expect_refused(const std::string& cause) const {
    expect_refused(Store::Mode::read_only, cause);
    expect_refused(Store::Mode::read_write, cause);
  }
  void expect_intact() const {
    EXPECT_EQ(Store(path_, Store::Mode::read_only).winners().size(), 1U);
  }
  /// As a copy made by other tools is: without a write-ahead log.
  void turn_log_off() const { edit_file(path_, "PRAGMA journal_mode = DELETE"); }

  TempDirectory directory_;
  fs::path path_ = directory_ / "tuned.db";
};

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) {
    bytes += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xffU);
  }
  return bytes;
}

/// A journal that is to be rolled back, of no page, whose end names a file to delete afterwards.
std::string journal_naming(const std::string& victim, const fs::path& database) {
  constexpr std::uint32_t kPageBytes = 4096;
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  const auto pages = static_cast<std::uint32_t>(fs::file_size(database) / kPageBytes);
  std::uint32_t sum = 0;
  for (const char c : victim) {
    sum += static_cast<std::uint32_t>(c);
  }
  std::string journal = magic + big_endian(0) + big_endian(1) + big_endian(pages) +
                        big_endian(512) + big_endian(kPageBytes);
  journal.resize(512, '\0');
  return journal + big_endian(0x40000000 / kPageBytes + 1) + victim +
         big_endian(static_cast<std::uint32_t>(victim.size())) + big_endian(sum) + magic;
}

TEST_F(CompanionTest, AJournalThatNamesAFileDeletesNothing) {
  for (const bool has_log : {true, false}) {
    if (!has_log) {
      turn_log_off();
    }
    const fs::path victim = directory_.write("letters.txt", "years of work");
    write("-journal", journal_naming(victim.string(), path_));
    expect_refused(has_log ? "write-ahead log" : "names another file");
    EXPECT_TRUE(fs::exists(victim));
    fs::remove(beside("-journal"));
    expect_intact();
  }
}

TEST_F(CompanionTest, AJournalBesideADatabaseWithALogIsRefusedWhateverItHolds) {
  for (const std::string& bytes :
       {std::string(1, '\0'), std::string("{}"), std::string(9000, 'x')}) {
    write("-journal", bytes);
    expect_refused("tuned.db-journal");
  }
  write("-journal", "");
  expect_intact();
}

/// By what another process would have to wait for.
bool is_read_locked(const fs::path& database) {
  constexpr off_t kReaders = 0x40000002;  // SQLite, "File Locking": the shared bytes.
  return WEXITSTATUS(status_of(in_child([&] {
           const int file = open(database.c_str(), O_RDWR);
           struct flock lock {};
           lock.l_type = F_WRLCK;
           lock.l_whence = SEEK_SET;
           lock.l_start = kReaders;
           lock.l_len = 510;
           _exit(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0);
         }))) == 1;
}

TEST_F(CompanionTest, ALookAtAJournalEndsNoLockOfThisProcess) {
  turn_log_off();
  SQLite::Database reader(path_.string());
  reader.exec("BEGIN");
  reader.execAndGet("SELECT count(*) FROM result");
  ASSERT_TRUE(is_read_locked(path_));
  write("-journal", std::string(600, 'x'));
  error_of([&] { Store(path_, Store::Mode::read_only).winners(); });
  EXPECT_TRUE(is_read_locked(path_));
}

/// A process that died before its first commit leaves one, and its file must not be lost.
TEST_F(CompanionTest, AnInterruptedTransactionIsStillRolledBack) {
  turn_log_off();
  std::string database;
  std::string journal;
  {
    SQLite::Database writer(path_.string(), SQLite::OPEN_READWRITE);
    writer.exec(
        "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; DELETE FROM result; "
        "CREATE TABLE filler(t); INSERT INTO filler VALUES (hex(zeroblob(100000)))");
    database = bytes_of(path_);
    journal = bytes_of(beside("-journal"));
  }
  ASSERT_FALSE(journal.empty());
  std::ofstream(path_, std::ios::binary) << database;
  write("-journal", journal);
  { const Store store(path_, Store::Mode::read_write); }
  expect_intact();
}

TEST_F(CompanionTest, PipesAndLinksAreNeitherOpenedNorFollowed) {
  const fs::path other = directory_.write("other.txt", "mine");
  for (const std::string ending : {"-journal", "-wal", "-shm"}) {
    ASSERT_EQ(mkfifo(beside(ending).c_str(), 0600), 0);
    expect_refused("tuned.db" + ending);
    fs::remove(beside(ending));
    fs::create_symlink(other, beside(ending));
    expect_refused("tuned.db" + ending);
    fs::remove(beside(ending));
    fs::create_hard_link(other, beside(ending));
    expect_refused("tuned.db" + ending);
    fs::remove(beside(ending));
  }
  EXPECT_EQ(fs::file_size(other), 4U);
  expect_intact();
}

TEST_F(CompanionTest, ThroughALinkToTheDatabaseTheyAreTheSame) {
  const fs::path link = directory_ / "link.db";
  fs::create_symlink(path_, link);
  ASSERT_EQ(mkfifo(beside("-wal").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { const Lookup lookup(link); }).what(), HasSubstr("tuned.db-wal"));
}

TEST_F(CompanionTest, ALookupThatIsOpenRefusesAndGoesOn) {
  Lookup lookup(path_);
  { Store(path_, Store::Mode::read_write).begin_run(some_run()); }
  ASSERT_EQ(mkfifo(beside("-journal").c_str(), 0600), 0);
  auto refreshed =
      std::async(std::launch::async, [&] { return error_of([&] { lookup.refresh(); }); });
  ASSERT_EQ(refreshed.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_THAT(refreshed.get().what(), HasSubstr("tuned.db-journal"));
  EXPECT_TRUE(lookup.best(problem_of(4096), fictional_gpu()).time_us);
  fs::remove(beside("-journal"));
  EXPECT_TRUE(lookup.refresh());
}

TEST_F(CompanionTest, AStrangersFileCountsOnlyWhereAStrangerCouldReplaceTheDatabase) {
  constexpr uid_t kStranger = 12345;
  write("-wal", "");
  if (chown(beside("-wal").c_str(), kStranger, kStranger) != 0) {
    GTEST_SKIP() << "needs the right to give files away";
  }
  chmod(directory_.path().c_str(), 01777);
  expect_refused(Store::Mode::read_only, "another user's");
  chmod(directory_.path().c_str(), 0777);
  expect_intact();
}

}  // namespace
}  // namespace swr
