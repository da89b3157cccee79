// SPDX-License-Identifier: MIT
#include "generator/cubin_cache.h"

#include "core/files.h"
#include "core/sha256.h"
#include "tests/support/fictional_gpu.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

CompiledKernel make_kernel(const std::string& source, const std::string& content) {
  CompiledKernel kernel{.entry = "swr_attention",
                        .sm_arch = 121,
                        .source_digest = sha256_hex(source),
                        .resources = {.registers_per_thread = 168,
                                      .spill_store_bytes = 4,
                                      .spill_load_bytes = 8,
                                      .stack_bytes = 16,
                                      .static_smem_bytes = 1024}};
  for (const char byte : content) {
    kernel.cubin.push_back(static_cast<std::byte>(byte));
  }
  kernel.cubin_digest = sha256_hex(kernel.cubin);
  return kernel;
}

void expect_same(const CompiledKernel& stored, const CompiledKernel& original) {
  EXPECT_EQ(stored.entry, original.entry);
  EXPECT_EQ(stored.sm_arch, original.sm_arch);
  EXPECT_EQ(stored.cubin, original.cubin);
  EXPECT_EQ(stored.cubin_digest, original.cubin_digest);
  EXPECT_EQ(stored.source_digest, original.source_digest);
  EXPECT_EQ(stored.resources, original.resources);
}

std::filesystem::path only_file(const std::filesystem::path& folder) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(found.empty()) << "a second file " << entry.path();
    found = entry.path();
  }
  return found;
}

class CubinCacheFile : public testing::Test {
 protected:
  CubinCacheFile() { cache_.store(kernel_); }

  std::filesystem::path entry() const { return only_file(directory_.path() / "entries"); }
  std::filesystem::path cubin() const { return only_file(directory_.path() / "cubins"); }

  void expect_miss_that_heals() const {
    EXPECT_FALSE(cache_.find(kernel_.source_digest));
    cache_.store(kernel_);
    const auto stored = cache_.find(kernel_.source_digest);
    ASSERT_TRUE(stored);
    expect_same(*stored, kernel_);
  }

  const std::filesystem::path& cache_folder() const { return directory_.path(); }
  std::optional<std::vector<std::byte>> cubin_by_digest() const {
    return read_cached_cubin(cache_folder(), kernel_.cubin_digest, Sharing::none);
  }

  TempDirectory directory_;
  CubinCache cache_{directory_.path()};
  CompiledKernel kernel_ = make_kernel("source", "ELF cubin bytes");
};

TEST_F(CubinCacheFile, ReturnsWhatWasStored) {
  const auto stored = CubinCache(directory_.path()).find(kernel_.source_digest);
  ASSERT_TRUE(stored);
  expect_same(*stored, kernel_);
  EXPECT_TRUE(stored->from_cache);
}

TEST_F(CubinCacheFile, MissesAKeyThatWasNeverStored) {
  EXPECT_FALSE(cache_.find(sha256_hex("other source")));
}

TEST_F(CubinCacheFile, StoresEqualCubinsOnce) {
  cache_.store(make_kernel("other source", "ELF cubin bytes"));
  EXPECT_FALSE(cubin().empty());
  EXPECT_TRUE(cache_.find(sha256_hex("other source")));
}

TEST_F(CubinCacheFile, TreatsATruncatedCubinAsAMiss) {
  std::filesystem::resize_file(cubin(), 3);
  expect_miss_that_heals();
}

TEST_F(CubinCacheFile, TreatsAnAlteredCubinAsAMiss) {
  std::fstream(cubin(), std::ios::in | std::ios::out | std::ios::binary).put('X');
  expect_miss_that_heals();
}

TEST_F(CubinCacheFile, TreatsAMissingCubinAsAMiss) {
  std::filesystem::remove(cubin());
  expect_miss_that_heals();
}

TEST_F(CubinCacheFile, TreatsEveryTruncationOfTheEntryAsAMiss) {
  const auto path = entry();
  const auto whole = std::filesystem::file_size(path);
  for (std::uintmax_t size = 0; size + 2 < whole; size += 17) {
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(cache_.find(kernel_.source_digest)) << size;
    cache_.store(kernel_);
  }
  EXPECT_TRUE(cache_.find(kernel_.source_digest));
}

TEST_F(CubinCacheFile, TreatsAnAlteredNumberInTheEntryAsAMiss) {
  std::string text = bytes_of(entry());
  ASSERT_NE(text.find("168"), std::string::npos);
  text.replace(text.find("168"), 3, "128");
  std::ofstream(entry()) << text;
  expect_miss_that_heals();
}

TEST_F(CubinCacheFile, TreatsValidJsonOfAnotherShapeAsAMiss) {
  for (const char* text : {"{}", "[]", "null", "7", R"({"kernel": 1, "kernel_sha256": 2})"}) {
    std::ofstream(entry()) << text;
    EXPECT_FALSE(cache_.find(kernel_.source_digest)) << text;
  }
  expect_miss_that_heals();
}

/// Whoever changes an entry can compute its digest.
TEST_F(CubinCacheFile, TreatsNumbersThatNoKernelHasAsAMiss) {
  std::ifstream stored(entry());
  const auto original = nlohmann::json::parse(stored);
  for (const nlohmann::json& value : {nlohmann::json(-1), nlohmann::json(256),
                                      nlohmann::json(1LL << 40), nlohmann::json(1e300)}) {
    auto changed = original;
    changed["kernel"]["registers_per_thread"] = value;
    changed["kernel_sha256"] = sha256_hex(changed["kernel"].dump());
    std::ofstream(entry()) << changed;
    expect_miss_that_heals();
  }
}

/// A number that an entry may say, and that is divided by.
TEST_F(CubinCacheFile, OfAnEntryWithoutRegistersOccupancyIsCounted) {
  kernel_.resources.registers_per_thread = 0;
  cache_.store(kernel_);
  const auto stored = cache_.find(kernel_.source_digest);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->resources.registers_per_thread, 0);
  const AttentionProblem problem{.seq_q = 128, .seq_kv = 128, .head_dim = 64};
  EXPECT_GT(occupancy(stored->resources, problem, AttentionVariant{}, fictional_gpu()).ctas_per_sm,
            0);
}

TEST_F(CubinCacheFile, DoesNotAcceptTheEntryOfAnotherKey) {
  const std::string other = sha256_hex("other source");
  std::filesystem::copy_file(entry(), directory_.path() / "entries" / (other + ".json"));
  EXPECT_FALSE(cache_.find(other));
}

TEST_F(CubinCacheFile, LeavesNoTemporaryFilesBehind) {
  EXPECT_EQ(entry().extension(), ".json");
  EXPECT_EQ(cubin().extension(), ".cubin");
}

TEST(CubinCache, CompilesAKeyOnceForManyThreads) {
  const TempDirectory directory;
  const CubinCache cache(directory.path());
  const CompiledKernel kernel = make_kernel("source", "bytes");
  std::atomic<int> compilations = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const CompiledKernel found = cache.find_or_compile(kernel.source_digest, [&] {
        ++compilations;
        return kernel;
      });
      EXPECT_EQ(found.cubin, kernel.cubin);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(compilations, 1);
}

/// As a process does that was stopped while it compiles.
TEST(CubinCache, AHeldLockDelaysByAFewSecondsOnly) {
  const TempDirectory directory;
  const CubinCache cache(directory.path());
  const CompiledKernel kernel = make_kernel("source", "cubin");
  const std::filesystem::path lock = directory.path() / "locks" / kernel.source_digest.substr(0, 2);
  const FileDescriptor held = lock_file(lock, std::chrono::seconds(1));
  const auto start = std::chrono::steady_clock::now();
  expect_same(cache.find_or_compile(kernel.source_digest, [&] { return kernel; }), kernel);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_TRUE(cache.find(kernel.source_digest));
}

TEST(WriteAtomically, AProcessThatIsKilledLeavesNothing) {
  const TempDirectory directory;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);  // Kills in the middle of a write.
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    write_atomically(directory / "file", std::string(100'000, 'x'));
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(CubinCache, StoresNothingWhenTheCompilationFails) {
  const TempDirectory directory;
  const CubinCache cache(directory.path());
  const CompiledKernel kernel = make_kernel("source", "bytes");
  EXPECT_THROW(cache.find_or_compile(
                   kernel.source_digest,
                   []() -> CompiledKernel { throw Error(ErrorCode::compile_failed, "no"); }),
               Error);
  EXPECT_FALSE(cache.find(kernel.source_digest));
  EXPECT_FALSE(cache.find_or_compile(kernel.source_digest, [&] { return kernel; }).from_cache);
}

TEST(CubinCache, SaysWhichDirectoryCannotBeCreatedAndWhatToDo) {
  const TempDirectory directory;
  const auto file = directory.write("file", "");
  const std::string message =
      message_of(ErrorCode::not_writable, [&] { const CubinCache cache(file / "cache"); });
  EXPECT_THAT(message, HasSubstr((file / "cache").string()));
  EXPECT_THAT(message, HasSubstr("--cache-dir"));
}

/// Its digests are stored beside what they guard: whoever can write can vouch for any code.
TEST_F(CubinCacheFile, OfAFolderThatAllMayWriteToNothingIsBelieved) {
  for (const char* part : {"", "entries", "cubins", "locks"}) {
    ASSERT_EQ(chmod((directory_.path() / part).c_str(), 0777), 0);
    EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { const CubinCache again(cache_folder()); }),
                HasSubstr("chmod -R go-w"));
    EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { (void)cubin_by_digest(); }),
                HasSubstr("other users"));
    ASSERT_EQ(chmod((directory_.path() / part).c_str(), 0755), 0);
  }
  EXPECT_TRUE(cubin_by_digest());
}

/// Also where new folders are open to all.
TEST(CubinCache, MakesFoldersThatItBelieves) {
  const TempDirectory directory;
  const mode_t usual = umask(0);
  const CubinCache cache(directory / "new" / "cache");
  umask(usual);
  cache.store(make_kernel("source", "bytes"));
  EXPECT_TRUE(cache.find(sha256_hex("source")));
}

TEST_F(CubinCacheFile, OfAFolderOfAnotherUserNothingIsBelieved) {
  constexpr uid_t kNobody = 65534;
  constexpr uid_t kOther = 65533;
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder away";
  }
  ASSERT_EQ(chown((directory_.path() / "cubins").c_str(), kOther, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(seteuid(kNobody), 0);
  EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { (void)cubin_by_digest(); }),
              HasSubstr("other users"));
  ASSERT_EQ(seteuid(0), 0);
}

TEST_F(CubinCacheFile, OfAFolderThatAGroupMayWriteToNothingIsBelievedUnlessItIsShared) {
  for (const char* part : {"", "entries", "cubins", "locks"}) {
    ASSERT_EQ(chmod((directory_.path() / part).c_str(), 0775), 0);
    for (const std::string& message :
         {message_of(ErrorCode::unreadable, [&] { const CubinCache again(cache_folder()); }),
          message_of(ErrorCode::unreadable, [&] { (void)cubin_by_digest(); })}) {
      EXPECT_THAT(message, HasSubstr("--shared-cache"));
    }
    const CubinCache shared(cache_folder(), Sharing::group);
    EXPECT_TRUE(shared.find(kernel_.source_digest));
    EXPECT_TRUE(read_cached_cubin(cache_folder(), kernel_.cubin_digest, Sharing::group));
    ASSERT_EQ(chmod((directory_.path() / part).c_str(), 0755), 0);
  }
}

/// What a link leads to may change between two looks, and need not be the user's.
TEST_F(CubinCacheFile, FollowsNoLinks) {
  for (const auto& file : {entry(), cubin()}) {
    cache_.store(kernel_);
    const auto elsewhere = directory_.path() / "elsewhere";
    std::filesystem::rename(file, elsewhere);
    std::filesystem::create_symlink(elsewhere, file);
    EXPECT_FALSE(cache_.find(kernel_.source_digest)) << file;
    expect_miss_that_heals();
    EXPECT_FALSE(std::filesystem::is_symlink(file)) << "replaced, not written through";
  }
  for (const char* part : {"entries", "cubins", "locks"}) {
    std::filesystem::rename(directory_ / part, directory_ / "moved");
    std::filesystem::create_directory_symlink(directory_ / "moved", directory_ / part);
    for (const std::string& message :
         {message_of(ErrorCode::unreadable, [&] { const CubinCache again(cache_folder()); }),
          message_of(ErrorCode::unreadable, [&] { (void)cubin_by_digest(); })}) {
      EXPECT_THAT(message, HasSubstr("is a link"));
    }
    std::filesystem::remove(directory_ / part);
    std::filesystem::rename(directory_ / "moved", directory_ / part);
  }
}

TEST(CubinCache, MayBeALinkItself) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "large disk");
  std::filesystem::create_directory_symlink(directory / "large disk", directory / "cache");
  const CubinCache cache(directory / "cache");
  cache.store(make_kernel("source", "bytes"));
  EXPECT_TRUE(cache.find(sha256_hex("source")));
}

/// Both digests of what another put there while the folder stood open fit; its owner does not.
TEST_F(CubinCacheFile, DoesNotVouchForFilesOfAnotherUser) {
  constexpr uid_t kAda = 65534;
  constexpr uid_t kEve = 65533;
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  for (const auto& folder : {cache_folder(), cache_folder() / "entries", cache_folder() / "cubins",
                             cache_folder() / "locks"}) {
    ASSERT_EQ(chown(folder.c_str(), kAda, static_cast<gid_t>(-1)), 0);
  }
  for (const auto& file : {entry(), cubin()}) {
    ASSERT_EQ(chown(file.c_str(), kEve, static_cast<gid_t>(-1)), 0);
    ASSERT_EQ(seteuid(kAda), 0);
    const CubinCache cache(cache_folder());
    EXPECT_FALSE(cache.find(kernel_.source_digest)) << file;
    EXPECT_TRUE(CubinCache(cache_folder(), Sharing::group).find(kernel_.source_digest)) << file;
    const CompiledKernel found =
        cache.find_or_compile(kernel_.source_digest, [&] { return kernel_; });
    EXPECT_FALSE(found.from_cache);
    EXPECT_TRUE(cache.find(kernel_.source_digest)) << "replaced";
    ASSERT_EQ(seteuid(0), 0);
  }
}

TEST_F(CubinCacheFile, DoesNotWaitForThePipesInPlaceOfItsFiles) {
  for (const auto& file : {entry(), cubin()}) {
    cache_.store(kernel_);
    std::filesystem::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0644), 0);
    EXPECT_FALSE(cache_.find(kernel_.source_digest).has_value());
    std::filesystem::remove(file);
  }
}

TEST(CubinCache, AKernelThatCannotBeStoredIsThereAllTheSame) {
  const TempDirectory directory;
  const CubinCache cache(directory.path());
  std::filesystem::remove_all(directory.path() / "cubins");
  int compiled = 0;
  for (int i = 0; i < 2; ++i) {
    const CompiledKernel kernel = cache.find_or_compile("source", [&] {
      ++compiled;
      return make_kernel("source", "bytes");
    });
    expect_same(kernel, make_kernel("source", "bytes"));
  }
  EXPECT_EQ(compiled, 2);
}

TEST(CubinCache, SaysWhichDirectoryCannotBeWritten) {
  const TempDirectory directory;
  const CubinCache cache(directory.path());
  std::filesystem::remove_all(directory.path() / "cubins");
  const std::string message =
      message_of(ErrorCode::not_writable, [&] { cache.store(make_kernel("source", "bytes")); });
  EXPECT_THAT(message, HasSubstr(directory.path().string()));
  EXPECT_THAT(message, HasSubstr("--cache-dir"));
}

}  // namespace
}  // namespace swr
