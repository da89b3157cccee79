// SPDX-License-Identifier: MIT
// Damaged files and absurd problems: each ends in an answer that is legal or in an Error, never in
// a crash. Deterministic; the sanitizer presets run it too.
#include "runtime/kernel_source.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/constraints.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 150;

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Changes, removes or doubles a few stretches of the bytes.
std::string damaged(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (std::size_t changes = 1 + below(8); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = std::min(1 + below(16), bytes.size() - at);
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default:
        bytes.replace(at, length, length, static_cast<char>(below(2) * 0xff));
    }
  }
  return bytes;
}

class FuzzTest : public ServingTest {
 protected:
  void fill() {
    for (const int seq : {512, 4096, 20000}) {
      record(problem_of(seq), tile(128, 64), 10.0);
      record(problem_of(seq), tile(64, 64), 11.0);
    }
  }
};

TEST_F(FuzzTest, DamagedDatabasesGiveErrorsOrLegalAnswers) {
  fill();
  // A closed copy holds everything in one file.
  const fs::path copy = directory_ / "copy.db";
  {
    Store closed(copy, Store::Mode::read_write);
    for (const StoredResult& winner : store_.winners()) {
      closed.record(closed.begin_run(some_run()), winner.problem, winner.device, winner.result);
    }
  }
  const std::string intact = bytes_of(copy);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const fs::path path = directory_.path() / ("damaged" + std::to_string(round) + ".db");
    write_bytes(path, damaged(intact, random));
    try {
      const Lookup lookup(path);
      for (const int seq : {1, 4096, 100000}) {
        const Answer answer = lookup.best(problem_of(seq), device_);
        EXPECT_FALSE(check_constraints(problem_of(seq), answer.variant, device_));
      }
    } catch (const Error&) {
      ++refused;
    }
    fs::remove(path);
  }
  EXPECT_GT(refused, 0);
}

TEST_F(FuzzTest, DamagedManifestsGiveErrorsOrLegalKernels) {
  fill();
  export_all();
  const std::string intact = bytes_of(exported_ / kManifestFile);
  std::mt19937 random(2);
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    write_bytes(exported_ / kManifestFile, damaged(intact, random));
    try {
      const KernelSource source({.exported = exported_});
      if (const auto choice = source.best_exported(problem_of(3000), device_)) {
        EXPECT_FALSE(check_constraints(problem_of(3000), choice->answer.variant, device_));
        (void)source.find(problem_of(3000), *choice, device_.sm_arch);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
}

TEST_F(FuzzTest, DamagedCubinsAreRefused) {
  fill();
  export_all();
  const std::string file = read_manifest(exported_).kernels.front().file;
  const std::string intact = bytes_of(exported_ / file);
  std::mt19937 random(3);
  for (int round = 0; round < kRounds; ++round) {
    const std::string bytes = damaged(intact, random);
    write_bytes(exported_ / file, bytes);
    if (bytes != intact) {
      EXPECT_EQ(error_of([&] { KernelSource({.exported = exported_}); }).code(),
                ErrorCode::unreadable);
    }
  }
}

TEST_F(FuzzTest, AbsurdProblemsGiveErrorsOrLegalAnswers) {
  fill();
  const Lookup lookup(database_);
  std::mt19937_64 random(4);
  const auto number = [&]() -> int {
    switch (random() % 4) {
      case 0:
        return static_cast<int>(random());
      case 1:
        return static_cast<int>(random() % 5) - 1;
      case 2:
        return 1 << (random() % 31);
      default:
        return 16 * static_cast<int>(random() % 20);
    }
  };
  int answered = 0;
  for (int round = 0; round < 20000; ++round) {
    AttentionProblem problem{.batch = number(),
                             .heads_q = number(),
                             .heads_kv = number(),
                             .seq_q = number(),
                             .seq_kv = number(),
                             .head_dim = random() % 2 == 0 ? 64 : number(),
                             .dtype = random() % 2 == 0 ? DType::fp16 : DType::bf16,
                             .causal = random() % 2 == 0};
    problem.heads_kv = random() % 2 == 0 ? attention(problem).heads_q : attention(problem).heads_kv;
    try {
      const Answer answer = lookup.best(problem, device_);
      EXPECT_FALSE(check_constraints(problem, answer.variant, device_)) << to_string(problem);
      ++answered;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  }
  EXPECT_GT(answered, 100);
}

}  // namespace
}  // namespace swr
