// SPDX-License-Identifier: MIT
#include "generator/cache_key.h"

#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"

#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace swr {
namespace {

using testing::HasSubstr;

class CacheKeyTest : public testing::Test {
 protected:
  CacheKey key() const { return CacheKey::read_or_make(file_); }
  std::string complaint(ErrorCode code) const {
    const std::string message = message_of(code, [&] { (void)key(); });
    EXPECT_THAT(message, HasSubstr(file_.string()));
    return message;
  }

  TempDirectory directory_;
  std::filesystem::path file_ = directory_ / "state" / "swr" / "cache.key";
};

/// RFC 2104; the number is of Python's hmac: hmac.new(b"\xaa" * 32, b"\xdd" * 50, "sha256").
TEST_F(CacheKeyTest, SealsAsTheStandardSays) {
  directory_.write("state/swr/cache.key", std::string(32, '\xaa'));
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  EXPECT_EQ(key().seal(std::string(50, '\xdd')),
            "cdcb1220d1ecccea91e53aba3092f962e549fe6ce9ed7fdc43191fbde45c30b0");
}

TEST_F(CacheKeyTest, IsMadeOnceForItsOwnerAlone) {
  const mode_t usual = umask(0);
  const std::string seal = key().seal("text");
  umask(usual);
  EXPECT_EQ(key().seal("text"), seal);
  struct stat status {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(status.st_size, 32);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(file_.parent_path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U) << "no draft is left";
}

TEST_F(CacheKeyTest, DiffersFromThatOfOthers) {
  EXPECT_NE(key().seal("text"), CacheKey::read_or_make(directory_ / "other").seal("text"));
}

TEST_F(CacheKeyTest, KnowsItsSealsFromOthers) {
  const CacheKey key = this->key();
  const std::string seal = key.seal("text");
  EXPECT_TRUE(key.is_seal(seal, "text"));
  EXPECT_FALSE(key.is_seal(seal, "another text"));
  EXPECT_FALSE(key.is_seal(seal.substr(1), "text"));
  EXPECT_FALSE(key.is_seal("", "text"));
}

TEST_F(CacheKeyTest, IsTheSameForAllWhoMakeItAtOnce) {
  std::vector<std::string> seals(8);
  std::vector<std::thread> threads;
  for (std::string& seal : seals) {
    threads.emplace_back([&] { seal = key().seal("text"); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(seals, std::vector<std::string>(8, key().seal("text")));
}

TEST_F(CacheKeyTest, IsRefusedWhereOthersMayReadIt) {
  (void)key();
  ASSERT_EQ(chmod(file_.c_str(), 0640), 0);
  EXPECT_THAT(complaint(ErrorCode::unreadable), HasSubstr("open to others"));
}

TEST_F(CacheKeyTest, IsRefusedWhereItIsALinkAPipeOrOfAnotherSize) {
  (void)key();
  const auto moved = directory_ / "moved";
  std::filesystem::rename(file_, moved);
  std::filesystem::create_symlink(moved, file_);
  EXPECT_THAT(complaint(ErrorCode::unreadable), HasSubstr("cannot be read"));
  std::filesystem::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(complaint(ErrorCode::unreadable), HasSubstr("no regular file"));
  std::filesystem::remove(file_);
  for (const std::size_t size : {0U, 31U, 33U}) {
    directory_.write("state/swr/cache.key", std::string(size, 'x'));
    ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
    EXPECT_THAT(complaint(ErrorCode::unreadable), HasSubstr("damaged"));
  }
}

TEST_F(CacheKeyTest, SaysWhereItCannotBeMade) {
  directory_.write("state", "no folder");
  EXPECT_THAT(complaint(ErrorCode::not_writable), HasSubstr("XDG_STATE_HOME"));
}

}  // namespace
}  // namespace swr
