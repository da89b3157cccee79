// SPDX-License-Identifier: MIT
// What a lookup costs: hits, nearest matches and misses by size of the database and number of
// threads, and reading the file. experiments/runtime publishes the numbers.
#include "db/connection.h"
#include "db/rows.h"
#include "db/table.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/lookup.h>

#include <SQLiteCpp/Transaction.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// As an H200, of which measured results come with swr.
swr::DeviceInfo serving_device() {
  return {.name = "Fictional F1",
          .sm_arch = 90,
          .sm_count = 132,
          .l2_bytes = 60LL << 20,
          .dram_gb_per_s = 4800.0,
          .mig = false,
          .smem_per_cta_bytes = 232448,
          .smem_per_sm_bytes = 233472,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

/// Shapes as they are served: eight kinds, any length.
swr::AttentionProblem random_problem(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  const int heads_kv = 1 << below(6);
  const double octaves = 6.0 + below(11000) / 1000.0;
  const int seq_kv = static_cast<int>(std::exp2(octaves));
  return {.batch = 1 + below(32),
          .heads_q = heads_kv << below(4),
          .heads_kv = heads_kv,
          .seq_q = std::max(1, seq_kv >> below(3)),
          .seq_kv = seq_kv,
          .head_dim = below(2) == 0 ? 64 : 128,
          .dtype = below(2) == 0 ? swr::DType::fp16 : swr::DType::bf16,
          .causal = below(2) == 0};
}

swr::VariantResult random_result(std::mt19937& random) {
  swr::AttentionVariant variant;
  variant.stages = 1 + static_cast<int>(random() % 2);
  variant.tile_m = random() % 2 == 0 ? 64 : 128;
  const double time_us = 10.0 + static_cast<double>(random() % 1000);
  swr::VariantResult result;
  result.variant = variant;
  result.outcome = swr::Measurement{.median_us = time_us, .p95_us = time_us};
  return result;
}

/// A database with one measured result for each of `count` problems, removed at the end.
class ServedDatabase {
 public:
  explicit ServedDatabase(std::size_t count)
      : path_(fs::temp_directory_path() /
              ("swr-lookup-" + std::to_string(getpid()) + "-" + std::to_string(count) + ".db")) {
    std::mt19937 random(17);
    std::set<swr::AttentionProblem> problems;
    while (problems.size() < count) {
      problems.insert(random_problem(random));
    }
    stored_.assign(problems.begin(), problems.end());
    std::shuffle(stored_.begin(), stored_.end(), random);
    write(random);
  }
  ~ServedDatabase() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  ServedDatabase(const ServedDatabase&) = delete;
  ServedDatabase& operator=(const ServedDatabase&) = delete;

  const fs::path& path() const { return path_; }
  const std::vector<swr::AttentionProblem>& stored() const { return stored_; }

 private:
  /// All rows in one transaction, which Store has no use for.
  void write(std::mt19937& random) const {
    const long long run = swr::Store(path_, swr::Store::Mode::read_write).begin_run({});
    SQLite::Database database = swr::open_database(path_, swr::Store::Mode::read_write);
    SQLite::Transaction transaction(database);
    const long long device = swr::insert_row(database, "device", swr::to_cells(serving_device()));
    for (const swr::AttentionProblem& problem : stored_) {
      const swr::VariantResult result = random_result(random);
      swr::Cells cells = swr::to_cells(result);
      cells.push_back({"run_id", run});
      cells.push_back({"device_id", device});
      cells.push_back({"problem_id", swr::insert_row(database, "problem", swr::to_cells(problem))});
      cells.push_back({"variant_id", swr::find_or_insert_row(database, "variant",
                                                             swr::to_cells(result.variant))});
      swr::insert_row(database, "result", cells);
    }
    swr::seal_rows(database);
    transaction.commit();
  }

  fs::path path_;
  std::vector<swr::AttentionProblem> stored_;
};

/// A database and its lookup, made once per size.
struct Served {
  explicit Served(std::size_t count) : database(count), lookup(database.path()) {}

  ServedDatabase database;
  swr::Lookup lookup;
};

Served& served(std::size_t count) {
  static std::map<std::size_t, std::unique_ptr<Served>> all;
  auto& one = all[count];
  if (!one) {
    one = std::make_unique<Served>(count);
  }
  return *one;
}

enum Question { kHit, kNearest, kMiss };

constexpr std::size_t kQuestions = 1024;

std::vector<swr::AttentionProblem> questions(const Served& served, Question question) {
  std::mt19937 random(23);
  std::vector<swr::AttentionProblem> asked;
  for (std::size_t i = 0; i < kQuestions; ++i) {
    const auto& stored = served.database.stored();
    swr::AttentionProblem problem =
        question == kHit ? stored[random() % stored.size()] : random_problem(random);
    problem.head_dim = question == kMiss ? 96 : problem.head_dim;
    asked.push_back(problem);
  }
  return asked;
}

double percentile(std::vector<double>& samples, double percent) {
  const auto rank =
      static_cast<std::ptrdiff_t>(percent / 100 * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + rank, samples.end());
  return samples[static_cast<std::size_t>(rank)];
}

/// A sample is the mean of 32 questions in a row, because reading the clock costs as much as one.
void ask(benchmark::State& state, Question question) {
  constexpr std::size_t kBatch = 32;
  const Served& one = served(static_cast<std::size_t>(state.range(0)));
  const auto asked = questions(one, question);
  const swr::DeviceInfo device = serving_device();
  std::vector<double> samples_ns;
  std::size_t next = static_cast<std::size_t>(state.thread_index()) * kBatch;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kBatch; ++i) {
      benchmark::DoNotOptimize(one.lookup.best(asked[(next + i) % kQuestions], device));
    }
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    samples_ns.push_back(elapsed.count() / kBatch);
    next += kBatch;
  }
  using benchmark::Counter;
  state.counters["p50_ns"] = Counter(percentile(samples_ns, 50), Counter::kAvgThreads);
  state.counters["p99_ns"] = Counter(percentile(samples_ns, 99), Counter::kAvgThreads);
}

/// Questions that nobody asked before, of what comes with swr and of the closed form.
template <typename Make>
void ask_anew(benchmark::State& state, Make&& make) {
  const swr::Lookup lookup(swr::LookupOptions{});
  const swr::DeviceInfo device = serving_device();
  std::vector<double> samples_ns;
  int asked = 0;
  for (auto _ : state) {
    const swr::Problem problem = make(++asked);
    const auto start = Clock::now();
    benchmark::DoNotOptimize(lookup.best(problem, device));
    samples_ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  state.counters["p50_ns"] = percentile(samples_ns, 50);
  state.counters["p99_ns"] = percentile(samples_ns, 99);
}

void first_attention(benchmark::State& state) {
  ask_anew(state, [](int n) {
    const int length = 1024 + n % (1 << 17);
    return swr::AttentionProblem{.batch = 1,
                                 .heads_q = 32,
                                 .heads_kv = 8,
                                 .seq_q = length,
                                 .seq_kv = length,
                                 .head_dim = 128,
                                 .dtype = swr::DType::bf16,
                                 .causal = true};
  });
}

void first_decode(benchmark::State& state) {
  ask_anew(state, [](int n) {
    return swr::AttentionProblem{.batch = 8,
                                 .heads_q = 32,
                                 .heads_kv = 8,
                                 .seq_q = 1,
                                 .seq_kv = 1024 + n % (1 << 17),
                                 .head_dim = 128,
                                 .dtype = swr::DType::bf16};
  });
}

void first_gemm(benchmark::State& state) {
  ask_anew(state,
           [](int n) { return swr::GemmProblem{.m = 1 + n % (1 << 17), .n = 6144, .k = 4096}; });
}

void open_database_file(benchmark::State& state) {
  const Served& one = served(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const swr::Lookup lookup(one.database.path());
    benchmark::DoNotOptimize(lookup.size());
  }
}

/// Compares every row with its digest, unlike a lookup also those that decide nothing.
void open_store(benchmark::State& state) {
  const Served& one = served(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const swr::Store store(one.database.path(), swr::Store::Mode::read_only);
    benchmark::DoNotOptimize(&store);
  }
}

void sizes_and_threads(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 2}) {
    benchmark->Threads(threads);
  }
  benchmark->Arg(10)->Arg(10000)->Arg(100000)->UseRealTime();
}

BENCHMARK_CAPTURE(ask, hit, kHit)->Apply(sizes_and_threads);
BENCHMARK_CAPTURE(ask, nearest, kNearest)->Apply(sizes_and_threads);
BENCHMARK_CAPTURE(ask, miss, kMiss)->Apply(sizes_and_threads);
BENCHMARK(first_attention);
BENCHMARK(first_decode);
BENCHMARK(first_gemm);
BENCHMARK(open_database_file)->Arg(10)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK(open_store)->Arg(10)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
