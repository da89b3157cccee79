// SPDX-License-Identifier: MIT
// explain on stored measurements, without a GPU and without a compiler.
#include "core/json.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/attention.h"
#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tuner/cli/commands.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/store.h>

namespace swr::cli {
namespace {

constexpr AttentionProblem kProblem{.seq_q = 65536, .seq_kv = 65536, .head_dim = 64};
/// Q, K and V of 8 MiB each.
constexpr long long kReadBytes = 24LL << 20;

VariantResult measured(const AttentionVariant& variant, double median_us,
                       long long dram_read_bytes) {
  VariantResult result{.variant = variant};
  result.resources.registers_per_thread = 168;
  result.smem_bytes = smem_bytes(kProblem, variant);
  result.ctas_per_sm = 1;
  result.outcome = Measurement{.samples_us = {median_us},
                               .median_us = median_us,
                               .p95_us = median_us,
                               .relative_error = 1e-4,
                               .counters = Counters{.sectors_demanded = 5'000'000,
                                                    .l2_lookups = 5'100'000,
                                                    .l2_hits = 5'000'000,
                                                    .l2_misses = 100'000,
                                                    .dram_read_bytes = dram_read_bytes,
                                                    .dram_write_bytes = 8LL << 20}};
  return result;
}

class Explain : public ::testing::Test {
 protected:
  void record(const VariantResult& result) {
    Store store(database_, Store::Mode::read_write);
    store.record(store.begin_run({.command = "test", .swr_version = "0"}), kProblem,
                 load_profile("h200").device, result);
  }

  /// Output, and the exit code in `code_`.
  std::string explain(const AttentionVariant& variant, const std::vector<std::string>& more = {}) {
    return run_program({"explain", "--gpu", "h200", "--seq", "65536", "--db", database_.string(),
                        "--variant", to_key(variant)},
                       more);
  }

  std::string run_program(std::vector<std::string> arguments,
                          const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    Environment environment{.cache_dir = kept_kernels().string()};
    std::ostringstream out;
    std::ostringstream err;
    code_ = run(arguments, environment, out, err);
    error_ = err.str();
    return out.str();
  }

  const TempDirectory directory_;
  const std::filesystem::path database_ = directory_ / "tuned.db";
  int code_ = -1;
  std::string error_;
};

constexpr AttentionVariant kSawtooth{
    .tile_m = 64, .tile_n = 64, .order = Order::sawtooth, .persistence = Persistence::persistent};

AttentionVariant cyclic() {
  AttentionVariant variant = kSawtooth;
  variant.order = Order::cyclic;
  return variant;
}

TEST_F(Explain, ShowsWhatWasMeasuredAndWhatTheOtherOrderCosts) {
  record(measured(kSawtooth, 4000.0, kReadBytes + 32 * 1000));
  record(measured(cyclic(), 4100.0, kReadBytes + 64'000'000));
  const std::string text = explain(kSawtooth);
  ASSERT_EQ(code_, 0) << error_;
  EXPECT_THAT(text, HasSubstr(", measured\n"));
  EXPECT_THAT(text, ContainsRegex("time +4.000 ms  median"));
  EXPECT_THAT(text, ContainsRegex("excess +1,000  31.25 KiB"));
  EXPECT_THAT(text, ContainsRegex("predicted time .* against the measured"));
  EXPECT_THAT(text, ContainsRegex("roofline \\(measured"));
  // 64 MB less the 32 KB that sawtooth fetches again itself.
  EXPECT_THAT(text,
              HasSubstr("cyclic fetches 63.97 MB more and takes 4.100 ms (+2.5 %) (measured)"));
}

TEST_F(Explain, CountsSharedMemoryAndGlobalBytesByName) {
  record(measured(kSawtooth, 4000.0, kReadBytes));
  const Json all = Json::parse(explain(kSawtooth, {"--json"}))["explanations"][0];
  EXPECT_EQ(all["smem_buffers_bytes"]["K ring"], 2 * 64 * 64 * 2);
  EXPECT_EQ(all["smem_bytes"], 5 * 64 * 64 * 2);
  EXPECT_EQ(all["global"]["blocks"], 1024);
  EXPECT_EQ(all["global"]["tensors"]["K"]["block_bytes"], 8LL << 20);
  EXPECT_EQ(all["global"]["tensors"]["K"]["total_bytes"], 8LL << 30);
  EXPECT_EQ(all["global"]["amplification"], 512.5);
  EXPECT_EQ(all["measured"]["excess_miss_sectors"], 0);
  EXPECT_EQ(all["roofline"]["horizontal_gap"], 1.0);
  EXPECT_EQ(all["other_order"]["provenance"], "predicted");
}

TEST_F(Explain, ShowsConflictsAndCoalescingByKindAndTheKnobThatMovesThem) {
  AttentionVariant variant = kSawtooth;
  variant.smem_swizzle = false;
  VariantResult result = measured(variant, 4000.0, kReadBytes);
  Measurement& measurement = std::get<Measurement>(result.outcome);
  measurement.accesses = AccessCounters{.smem_load_wavefronts = 8000,
                                        .smem_load_conflicts = 7000,
                                        .smem_store_wavefronts = 1000,
                                        .smem_store_conflicts = 0,
                                        .global_store_requests = 10,
                                        .global_store_sectors = 320,
                                        .global_store_bytes = 1280,
                                        .global_copy_requests = 100,
                                        .global_copy_sectors = 1600,
                                        .global_copy_bytes = 51'200,
                                        .tma_load_sectors = 77};
  measurement.accesses_missing_because = "this chip does not count loads";
  record(result);
  const std::string text = explain(variant);
  ASSERT_EQ(code_, 0) << error_;
  EXPECT_THAT(text, HasSubstr("memory accesses (measured, by hardware counter)"));
  EXPECT_THAT(text,
              ContainsRegex("shared, loads +0.875  \\[#########\\.\\] conflicts per wavefront, 0 "
                            "is best; 7,000 of 8,000; LDS and ldmatrix"));
  EXPECT_THAT(text, ContainsRegex("shared, stores +0.000  \\[\\.+\\]"));
  EXPECT_THAT(text, ContainsRegex("global, stores +4.00  \\[#\\.+\\] bytes used per sector of 32; "
                                  "32.0 sectors per request"));
  EXPECT_THAT(text, ContainsRegex("global, copies +32.0  \\[#+\\] bytes used"));
  EXPECT_THAT(text, ContainsRegex("global, TMA +77"));
  EXPECT_THAT(text, HasSubstr("not covered"));
  EXPECT_THAT(text, HasSubstr("this chip does not count loads"));
  EXPECT_THAT(text, HasSubstr("--smem-swizzle on spreads"));
  const Json accesses = Json::parse(explain(variant, {"--json"}))["explanations"][0]["accesses"];
  EXPECT_EQ(accesses["shared"][0]["conflicts_per_wavefront"], 0.875);
  EXPECT_EQ(accesses["global"][0]["kind"], "stores");
  EXPECT_EQ(accesses["global"][0]["bytes_per_sector"], 4.0);
  EXPECT_EQ(accesses["conflicts_per_wavefront"], 7.0 / 9.0);
  EXPECT_EQ(accesses["tma_load_sectors"], 77);
}

TEST_F(Explain, SaysThatAccessesWereNotCountedAndWhy) {
  record(measured(kSawtooth, 4000.0, kReadBytes));
  EXPECT_THAT(explain(kSawtooth),
              ContainsRegex("bank conflicts +not counted  only winners and those near them"));
  VariantResult refused = measured(kSawtooth, 4000.0, kReadBytes);
  std::get<Measurement>(refused.outcome).accesses_missing_because = "no permission";
  record(refused);
  EXPECT_THAT(explain(kSawtooth), ContainsRegex("bank conflicts +not counted  no permission"));
  const Json all = Json::parse(explain(kSawtooth, {"--json"}))["explanations"][0];
  EXPECT_TRUE(all["accesses"].is_null());
  EXPECT_EQ(all["measured"]["accesses_missing_because"], "no permission");
}

TEST_F(Explain, ExplainsGemmMeasuredOrNot) {
  const GemmProblem problem{.m = 4096, .n = 2048, .k = 1024};
  VariantResult result{.variant = AttentionVariant{}};
  result.variant = GemmVariant{.tile_m = 128, .tile_n = 128, .tile_k = 32, .stages = 3};
  result.resources.registers_per_thread = 168;
  result.ctas_per_sm = 2;
  result.outcome = Measurement{.samples_us = {50.0},
                               .median_us = 50.0,
                               .p95_us = 51.0,
                               .counters = Counters{.sectors_demanded = 2'000'000,
                                                    .l2_lookups = 2'000'000,
                                                    .l2_hits = 1'500'000,
                                                    .l2_misses = 500'000,
                                                    // A and B, 8 and 4 MiB, and 1 KiB again.
                                                    .dram_read_bytes = (12LL << 20) + 1024}};
  Store store(database_, Store::Mode::read_write);
  const long long run_id = store.begin_run({.command = "test", .swr_version = "0"});
  store.record(run_id, problem, load_profile("h200").device, result);
  const std::vector<std::string> gemm{"explain", "--op",  "gemm", "--m",  "4096",
                                      "--n",     "2048",  "--k",  "1024", "--dtype",
                                      "bf16",    "--gpu", "h200", "--db", database_.string()};
  const Json all = Json::parse(run_program(gemm, {"--json"}))["explanations"][0];
  ASSERT_EQ(code_, 0) << error_;
  EXPECT_EQ(all["provenance"], "measured");
  EXPECT_EQ(all["smem_buffers_bytes"]["A"], 3 * 128 * 32 * 2);
  EXPECT_EQ(all["smem_bytes"], 6 * 128 * 32 * 2 + 16);
  EXPECT_EQ(all["ctas"], 32 * 16);
  EXPECT_EQ(all["limited_by"], "registers");
  // 16 columns of tiles read A, 32 rows of them B.
  EXPECT_EQ(all["matrices"]["A"]["demanded_bytes"], 16LL * (8 << 20));
  EXPECT_EQ(all["matrices"]["B"]["demanded_bytes"], 32LL * (4 << 20));
  EXPECT_EQ(all["matrices"]["C"]["compulsory_bytes"], 16 << 20);
  EXPECT_GT(all["predicted"]["matrix_us"], 0.0);
  const std::string text = run_program(gemm, {});
  EXPECT_THAT(text, ContainsRegex("excess +32  1.000? KiB"));
  EXPECT_THAT(text, HasSubstr("(best stored (measured 50.00 us))"));
  EXPECT_THAT(text, ContainsRegex("predicted time .* against the measured"));
  EXPECT_THAT(text, ContainsRegex("roofline \\(measured"));
  const std::string other =
      run_program(gemm, {"--variant", "family=portable,tile_m=99,tile_n=64,tile_k=32,stages=3"});
  EXPECT_EQ(code_, 2);
  EXPECT_THAT(error_, HasSubstr("--variant breaks the constraint tile_shape"));
}

TEST_F(Explain, SaysWhatAPitchAndTheLastRoundOfAGemmCost) {
  const std::string text =
      run_program({"explain", "--op", "gemm", "--m", "4992", "--n", "4992", "--k", "5000",
                   "--dtype", "bf16", "--gpu", "h100", "--db", database_.string()},
                  {"--variant",
                   "family=hopper,tile_m=192,tile_n=128,tile_k=64,stages=4,consumers=3,persistence="
                   "persistent"});
  ASSERT_EQ(code_, 0) << error_;
  // 26 rows of 39 tiles are 7.68 rounds of 132.
  EXPECT_THAT(text, ContainsRegex("idle SMs +4 %"));
  EXPECT_THAT(text,
              ContainsRegex("rows of A +10,000 bytes +88 % of a tile's lines lie in two of "
                            "L2's, with an eighth more sectors; loads cost 2.2 times as much"));
}

TEST_F(Explain, ExplainsTheHopperFamilyMeasuredOrNot) {
  const AttentionVariant hopper{.family = Family::hopper,
                                .tile_m = 128,
                                .tile_n = 128,
                                .warps = 8,
                                .order = Order::sawtooth,
                                .persistence = Persistence::persistent};
  const std::string predicted = explain(hopper);
  ASSERT_EQ(code_, 0) << error_;
  EXPECT_THAT(predicted, HasSubstr("wgmma"));
  EXPECT_THAT(predicted, HasSubstr("work list and barriers"));
  EXPECT_THAT(predicted, HasSubstr("time (predicted)"));
  record(measured(hopper, 2000.0, kReadBytes));
  const std::string text = explain(hopper);
  ASSERT_EQ(code_, 0) << error_;
  EXPECT_THAT(text, HasSubstr("predicted time"));
}

}  // namespace
}  // namespace swr::cli
