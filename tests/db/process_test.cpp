// SPDX-License-Identifier: MIT
// Several processes on one file, and processes that die.
#include "tests/db/fixtures.h"
#include <swr/lookup.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

TEST(Processes, AreForkedWhileThreadsReadAndReadToo) {
  const TempDirectory directory;
  const auto path = directory / "tuned.db";
  record_many(path, 64, 20);
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        Lookup{path};
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(status_of(in_child([&] {
                alarm(20);
                Lookup{path};
              })),
              0);
  }
  is_over = true;
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

}  // namespace
}  // namespace swr
