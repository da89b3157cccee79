// SPDX-License-Identifier: MIT
// Hardware counters against numbers known in advance: published sector counts of one configuration,
// which do not depend on the chip, and kernels whose accesses are counted by hand.
#include "driver/range_profiler.h"
#include "report/explain/memory_access.h"
#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// Square tiles of 80, one head of 64, no mask: the configuration of Tables 1 and 2 of Sawtooth
/// Wavefront Reordering.
AttentionProblem published_problem(int seq) {
  return {.seq_q = seq, .seq_kv = seq, .head_dim = 64};
}

AttentionVariant published_variant(Persistence persistence, int workers) {
  return {.tile_m = 80,
          .tile_n = 80,
          .warps = 5,
          .stages = 2,
          .persistence = persistence,
          .workers = workers};
}

class CountersTest : public GpuTest {
 protected:
  /// Empty when counters are refused; the test is then skipped, or fails where a GPU is required.
  static std::optional<Counters> count(const AttentionProblem& problem,
                                       const AttentionVariant& variant) {
    MeasuringEvaluator evaluator(bench().generator, MeasureOptions{});
    const Contender contender{variant, &bench().compile(problem, variant)};
    const CounterReading reading = evaluator.count(problem, std::span(&contender, 1)).front();
    if (!reading.counters && gpu_is_required()) {
      ADD_FAILURE() << reading.missing_because;
    }
    return reading.counters;
  }
};

void expect_within_percent(long long value, double expected, double percent) {
  EXPECT_NEAR(static_cast<double>(value), expected, expected * percent / 100.0);
}

TEST_F(CountersTest, SectorsDemandedByAPersistentLaunchEqualThePublishedCount) {
  const auto counters = count(published_problem(32768),
                              published_variant(Persistence::persistent, bench().device.sm_count));
  if (!counters) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_within_percent(counters->sectors_demanded, 107'478'656.0, 1.0);
}

TEST_F(CountersTest, SectorsDemandedByAGridLaunchEqualThePublishedCount) {
  const auto counters = count(published_problem(32768), published_variant(Persistence::grid, 0));
  if (!counters) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_within_percent(counters->sectors_demanded, 107'741'184.0, 1.0);
}

TEST_F(CountersTest, MostLookupsOfAProblemThatFitsTheL2Hit) {
  const auto counters = count(published_problem(8192), published_variant(Persistence::grid, 0));
  if (!counters) {
    GTEST_SKIP() << "counters are refused";
  }
  EXPECT_EQ(counters->l2_hits, counters->l2_lookups - counters->l2_misses);
  EXPECT_GT(counters->l2_hits, counters->l2_misses);
}

TEST_F(CountersTest, DataBeyondTheL2IsReadFromDramAtLeastOnce) {
  // K and V of 64 heads: 256 MiB, beyond any L2.
  const AttentionProblem problem{
      .heads_q = 64, .heads_kv = 64, .seq_q = 256, .seq_kv = 16384, .head_dim = 64};
  const auto counters = count(problem, AttentionVariant{});
  if (!counters || counters->dram_read_bytes == 0) {
    GTEST_SKIP() << "DRAM is not counted";
  }
  const auto compulsory = static_cast<double>(compulsory_bytes(problem).read);
  EXPECT_GT(static_cast<double>(counters->dram_read_bytes), 0.75 * compulsory);
  EXPECT_LT(static_cast<double>(counters->dram_read_bytes), 1.5 * compulsory);
}

TEST_F(CountersTest, GivesEachOfSeveralVariantsItsOwnCounts) {
  MeasuringEvaluator evaluator(bench().generator, MeasureOptions{});
  const AttentionProblem problem = published_problem(8192);
  std::vector<Contender> contenders;
  for (const int tile_m : {64, 128, 64}) {
    const AttentionVariant variant{.tile_m = tile_m};
    contenders.push_back({variant, &bench().compile(problem, variant)});
  }
  const auto readings = evaluator.count(problem, contenders);
  ASSERT_EQ(readings.size(), 3U);
  if (!readings[0].counters) {
    GTEST_SKIP() << readings[0].missing_because;
  }
  // Twice the rows per tile walk K and V half as often.
  const auto demanded = [&](std::size_t i) {
    return static_cast<double>(readings[i].counters->sectors_demanded);
  };
  EXPECT_NEAR(demanded(1) / demanded(0), 0.5, 0.05);
  EXPECT_NEAR(demanded(2) / demanded(0), 1.0, 0.02);
}

TEST_F(CountersTest, NeedNotBeAskedForFirst) {
  const DeviceBuffer data(std::size_t{1} << 26U);
  const CountedLaunch filled{.prepare = [] {},
                             .launch =
                                 [&] {
                                   data.fill(1, bench().stream);
                                   bench().stream.synchronize();
                                 }};
  const auto counted = [&](Availability availability) {
    const RangeProfiler profiler(bench().context.handle(), 0, availability);
    EXPECT_EQ(profiler.missing(), "");
    return CountingSession(profiler).count(std::span(&filled, 1)).front();
  };
  try {
    const Counters assumed = counted(Availability::assumed);
    const Counters asked = counted(Availability::asked);
    expect_within_percent(assumed.l2_lookups, static_cast<double>(asked.l2_lookups), 5.0);
    EXPECT_GT(assumed.l2_lookups, static_cast<long long>(data.size_bytes() / 64));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_counters || gpu_is_required()) {
      throw;
    }
    GTEST_SKIP() << error.what();
  }
}

TEST_F(CountersTest, TimesAreTheSameBeforeAndAfterCounting) {
  MeasuringEvaluator evaluator(bench().generator, MeasureOptions{});
  const AttentionProblem problem = published_problem(8192);
  const CompiledKernel& compiled = bench().compile(problem, AttentionVariant{});
  const double before_us = evaluator.evaluate(problem, AttentionVariant{}, compiled).time_us();
  const double after_us = evaluator.evaluate(problem, AttentionVariant{}, compiled).time_us();
  EXPECT_NEAR(after_us / before_us, 1.0, 0.2);
}

// ---- Accesses of kernels that are counted by hand.

/// One warp per CTA; in each round every lane does one access. `stride` is the distance of
/// neighbouring lanes, in words of 4 bytes, or in rows of 16 bytes where those are accessed.
constexpr const char* kAccessKernels = R"(
namespace {
constexpr int kWords = 32 * 32;

__device__ unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ void keep(unsigned value, unsigned* sink) {
  if (value == 0x9e3779b9U) {
    *sink = value;
  }
}
}  // namespace

extern "C" __global__ void swr_load_shared(int stride, int rounds, unsigned* sink) {
  __shared__ volatile unsigned words[kWords];
  const int lane = static_cast<int>(threadIdx.x);
  unsigned sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    sum += words[(lane * stride + round % 32) % kWords];
  }
  keep(sum, sink);
}

extern "C" __global__ void swr_store_shared(int stride, int rounds, unsigned* sink) {
  __shared__ volatile unsigned words[kWords];
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    words[(lane * stride + round % 32) % kWords] = static_cast<unsigned>(round);
  }
}

extern "C" __global__ void swr_load_matrices(int stride, int rounds, unsigned* sink) {
  __shared__ __align__(128) uint4 rows[32 * 8];
  const unsigned row = shared_address(&rows[static_cast<int>(threadIdx.x) * stride]);
  unsigned sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    unsigned a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(row));
    sum += a ^ b ^ c ^ d;
  }
  keep(sum, sink);
}

extern "C" __global__ void swr_copy_async(const uint4* data, int stride, int rounds,
                                          unsigned* sink) {
  __shared__ __align__(128) uint4 rows[32 * 8];
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned row = shared_address(&rows[lane * stride]);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(row), "l"(data + round * 32 + lane));
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
}

extern "C" __global__ void swr_load_global(const unsigned* data, int stride, int rounds,
                                           unsigned* sink) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    sum += __ldcg(data + (round * 32 + lane) * stride);
  }
  keep(sum, sink);
}

extern "C" __global__ void swr_store_global(unsigned* data, int stride, int rounds,
                                            unsigned* sink) {
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    data[(round * 32 + lane) * stride] = static_cast<unsigned>(round);
  }
}
)";

constexpr int kCtas = 4;
constexpr int kRounds = 1024;
/// Warps that access: every figure below is a multiple of it.
constexpr long long kAccesses = kCtas * kRounds;

class AccessesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    std::filesystem::create_directories(directory_ / "calibration");
    std::ofstream(directory_ / "calibration" / "memory.cu") << kAccessKernels;
    GeneratorOptions options;
    options.template_overlay = directory_.path();
    const Generator generator(options);
    cubin_ =
        generator
            .compile_template("calibration/memory.cu", "swr_load_shared", bench().device.sm_arch)
            .cubin;
    data_ = std::make_unique<DeviceBuffer>(std::size_t{32} * 32 * kRounds);
    data_->fill(0, bench().stream);
    sink_ = std::make_unique<DeviceBuffer>(std::size_t{128});
  }
  void TearDown() override {
    data_.reset();
    sink_.reset();
  }

  /// Of one launch; empty when counters are refused.
  std::optional<AccessCounters> count(const char* entry, bool reads_data, int stride) {
    const Kernel kernel(cubin_, entry);
    const LaunchShape shape{.grid_x = kCtas, .block_x = 32};
    const auto launch = [&] {
      if (reads_data) {
        kernel.launch(shape, bench().stream, data_->address(), stride, kRounds, sink_->address());
      } else {
        kernel.launch(shape, bench().stream, stride, kRounds, sink_->address());
      }
      bench().stream.synchronize();
    };
    try {
      const RangeProfiler profiler(bench().context.handle(), 0);
      EXPECT_EQ(profiler.missing_accesses(), "");
      CountingSession session(profiler);
      const CountedLaunch counted{.prepare = [] {}, .launch = launch};
      return session.count_accesses(std::span(&counted, 1)).front();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_counters || gpu_is_required()) {
        throw;
      }
      return std::nullopt;
    }
  }

  TempDirectory directory_;
  std::vector<std::byte> cubin_;
  std::unique_ptr<DeviceBuffer> data_;
  std::unique_ptr<DeviceBuffer> sink_;
};

/// Few enough to be what clients of the banks cost each other.
constexpr double kStrayShare = 0.01;

void expect_accesses(std::optional<long long> counted, long long expected) {
  ASSERT_TRUE(counted);
  EXPECT_NEAR(
      static_cast<double>(*counted), static_cast<double>(expected),
      kStrayShare * static_cast<double>(kAccesses) + kStrayShare * static_cast<double>(expected));
}

TEST_F(AccessesTest, LoadsOfConsecutiveWordsDoNotConflict) {
  const auto counted = count("swr_load_shared", false, 1);
  if (!counted) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(counted->smem_load_wavefronts, kAccesses);
  expect_accesses(counted->smem_load_conflicts, 0);
  expect_accesses(counted->smem_copy_wavefronts, 0);
}

TEST_F(AccessesTest, LoadsOfWordsThatShareABankConflict32Ways) {
  const auto counted = count("swr_load_shared", false, 32);
  if (!counted) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(counted->smem_load_wavefronts, 32 * kAccesses);
  expect_accesses(counted->smem_load_conflicts, 31 * kAccesses);
  EXPECT_NEAR(*conflicts_per_wavefront(*counted), 31.0 / 32.0, 0.01);
}

TEST_F(AccessesTest, StoresConflictLikeLoads) {
  const auto apart = count("swr_store_shared", false, 1);
  const auto together = count("swr_store_shared", false, 32);
  if (!apart || !together) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(apart->smem_store_wavefronts, kAccesses);
  expect_accesses(apart->smem_store_conflicts, 0);
  expect_accesses(together->smem_store_wavefronts, 32 * kAccesses);
  expect_accesses(together->smem_store_conflicts, 31 * kAccesses);
}

/// Four matrices of eight rows of 16 bytes: a wavefront each where the rows follow each other, one
/// for every row where they are 128 bytes apart.
TEST_F(AccessesTest, MatricesWhoseRowsShareBanksConflict8Ways) {
  const auto apart = count("swr_load_matrices", false, 1);
  const auto together = count("swr_load_matrices", false, 8);
  if (!apart || !together) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(apart->smem_load_wavefronts, 4 * kAccesses);
  expect_accesses(apart->smem_load_conflicts, 0);
  expect_accesses(together->smem_load_wavefronts, 32 * kAccesses);
  expect_accesses(together->smem_load_conflicts, 28 * kAccesses);
}

/// A warp copies 512 bytes of 16 sectors: four wavefronts, or one for each row where these are 128
/// bytes apart.
TEST_F(AccessesTest, CopiesFillTheirSectorsAndAreNoLoads) {
  const auto apart = count("swr_copy_async", true, 1);
  const auto together = count("swr_copy_async", true, 8);
  if (!apart || !together) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(apart->global_copy_requests, kAccesses);
  expect_accesses(apart->global_copy_sectors, 16 * kAccesses);
  expect_accesses(apart->global_copy_bytes, 512 * kAccesses);
  expect_accesses(apart->global_load_sectors, 0);
  EXPECT_NEAR(*bytes_per_sector(*apart), 32.0, 0.5);
  expect_accesses(apart->global_load_requests, 0);
  expect_accesses(apart->smem_copy_wavefronts, 4 * kAccesses);
  expect_accesses(apart->smem_copy_conflicts, 0);
  expect_accesses(together->smem_copy_wavefronts, 32 * kAccesses);
  expect_accesses(together->smem_copy_conflicts, 28 * kAccesses);
}

TEST_F(AccessesTest, LoadsOfConsecutiveWordsUseWholeSectors) {
  const auto counted = count("swr_load_global", true, 1);
  if (!counted) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(counted->global_load_requests, kAccesses);
  expect_accesses(counted->global_load_sectors, 4 * kAccesses);
  expect_accesses(counted->global_load_bytes, 128 * kAccesses);
  EXPECT_NEAR(*bytes_per_sector(*counted), 32.0, 0.5);
}

TEST_F(AccessesTest, LoadsOfAWordPerSectorUse4Of32Bytes) {
  const auto counted = count("swr_load_global", true, 8);
  if (!counted) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(counted->global_load_requests, kAccesses);
  expect_accesses(counted->global_load_sectors, 32 * kAccesses);
  expect_accesses(counted->global_load_bytes, 128 * kAccesses);
  EXPECT_NEAR(*bytes_per_sector(*counted), 4.0, 0.1);
}

TEST_F(AccessesTest, StoresUseSectorsLikeLoads) {
  const auto whole = count("swr_store_global", true, 1);
  const auto strided = count("swr_store_global", true, 8);
  if (!whole || !strided) {
    GTEST_SKIP() << "counters are refused";
  }
  expect_accesses(whole->global_store_sectors, 4 * kAccesses);
  expect_accesses(whole->global_store_bytes, 128 * kAccesses);
  expect_accesses(strided->global_store_sectors, 32 * kAccesses);
  expect_accesses(strided->global_store_bytes, 128 * kAccesses);
}

// ---- Accesses of the attention kernel.

AccessReading accesses_of(MeasuringEvaluator& evaluator, const AttentionProblem& problem,
                          const AttentionVariant& variant, const CompiledKernel& kernel) {
  const Contender contender{variant, &kernel};
  return evaluator.count_accesses(problem, std::span(&contender, 1)).front();
}

/// Rows of 128 bytes: swizzled they meet nowhere, else the eight rows of a matrix share their
/// banks.
TEST_F(CountersTest, SwizzlingTheRowsOfKAndVRemovesTheirBankConflicts) {
  MeasuringEvaluator evaluator(bench().generator, MeasureOptions{});
  const AttentionProblem problem = published_problem(8192);
  const AttentionVariant swizzled{.tile_m = 64, .tile_n = 64};
  AttentionVariant plain = swizzled;
  plain.smem_swizzle = false;
  const auto on = accesses_of(evaluator, problem, swizzled, bench().compile(problem, swizzled));
  const auto off = accesses_of(evaluator, problem, plain, bench().compile(problem, plain));
  if (!on.accesses || !off.accesses) {
    GTEST_SKIP() << on.missing_because;
  }
  EXPECT_EQ(on.missing_because, "");
  const auto loads = [](const AccessReading& reading) {
    return smem_accesses(*reading.accesses).front().conflicts_per_wavefront();
  };
  EXPECT_LT(loads(on), 0.1);
  EXPECT_GT(loads(off), 0.7);
  EXPECT_LE(loads(off), 0.9);
  // 128 Q tiles read K and V of 1 MiB each, and Q is read once: 257 MiB of sectors, all used.
  EXPECT_NEAR(static_cast<double>(*on.accesses->global_copy_sectors), 257.0 * (1 << 20) / 32,
              0.05 * 257.0 * (1 << 20) / 32);
  EXPECT_NEAR(*bytes_per_sector(*on.accesses), 32.0, 1.0);
  EXPECT_EQ(on.accesses->tma_load_sectors, 0);
}

TEST_F(CountersTest, CountingAccessesLeavesTheOtherCountersAsTheyWere) {
  MeasuringEvaluator evaluator(bench().generator, MeasureOptions{});
  const AttentionProblem problem = published_problem(8192);
  const AttentionVariant variant = published_variant(Persistence::grid, 0);
  const CompiledKernel& kernel = bench().compile(problem, variant);
  const Contender contender{variant, &kernel};
  const auto before = evaluator.count(problem, std::span(&contender, 1)).front();
  const auto accesses = accesses_of(evaluator, problem, variant, kernel);
  const auto after = evaluator.count(problem, std::span(&contender, 1)).front();
  if (!before.counters) {
    GTEST_SKIP() << before.missing_because;
  }
  EXPECT_TRUE(accesses.accesses) << accesses.missing_because;
  ASSERT_TRUE(after.counters) << after.missing_because;
  expect_within_percent(after.counters->sectors_demanded,
                        static_cast<double>(before.counters->sectors_demanded), 1.0);
}

TEST(CounterMetrics, EachFillsAFieldOfItsOwn) {
  Counters counters;
  for (const CounterMetric& metric : counter_metrics()) {
    EXPECT_EQ(counters.*(metric.counter), 0) << metric.metric;
    counters.*(metric.counter) = 1;
  }
  // What hits is what does not miss.
  counters.l2_hits = 1;
  EXPECT_EQ(counters, (Counters{1, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace swr
