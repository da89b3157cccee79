// SPDX-License-Identifier: MIT
#include "fuzz/stored.h"

#include "fuzz/harness.h"
#include "tests/support/fictional_gpu.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/store.h>

#include <SQLiteCpp/Database.h>

#include <fstream>
#include <iterator>

namespace swr::fuzz {
namespace {

namespace fs = std::filesystem;

AttentionProblem attention(int seq) {
  return {.heads_q = 8, .heads_kv = 8, .seq_q = seq, .seq_kv = seq, .head_dim = 64};
}

VariantResult measured(const Variant& variant, double median_us) {
  VariantResult result;
  result.variant = variant;
  result.resources.registers_per_thread = 120;
  result.outcome = Measurement{.samples_us = {median_us},
                               .median_us = median_us,
                               .p95_us = median_us,
                               .counters = Counters{.sectors_demanded = 10, .l2_misses = 4},
                               .condition_missing_because = "fictional",
                               .accesses_missing_because = "not asked for"};
  return result;
}

VariantResult predicted(const Variant& variant, double time_us) {
  VariantResult result = measured(variant, time_us);
  result.outcome = Prediction{.time_us = time_us, .read_sectors = 1000};
  return result;
}

VariantResult failed(const Variant& variant) {
  VariantResult result = measured(variant, 1.0);
  result.state = ResultState::timeout;
  result.detail = "it took 10 s";
  result.outcome = Measurement{};
  return result;
}

void fill(Store& store) {
  const DeviceInfo device = fictional_gpu();
  const AttentionVariant small{.tile_m = 64, .tile_n = 64};
  const AttentionVariant large{.tile_m = 128, .tile_n = 64};
  const long long run = store.begin_run({.command = "swr-tune --seq 4096",
                                         .swr_version = "0.1.0",
                                         .templates_digest = "00ff",
                                         .nvrtc_version = "13.0",
                                         .driver_version = "13.1",
                                         .l2_state = "warm",
                                         .seed = 7,
                                         .conditions = "fictional"});
  for (const int seq : {512, 4096}) {
    store.record(run, attention(seq), device, measured(small, 10.0));
    store.record(run, attention(seq), device, measured(large, 11.0));
    store.record(run, attention(seq), device,
                 failed(AttentionVariant{.tile_m = 64, .tile_n = 128}));
  }
  store.record(run, attention(20000), device, predicted(large, 300.0));
  store.record(run, GemmProblem{.m = 512, .n = 512, .k = 512}, device,
               measured(GemmVariant{}, 20.0));
  const std::vector<Finalist> finalists{{.result = measured(small, 10.0), .tied = true},
                                        {.result = measured(large, 11.0), .ratio = 1.1}};
  store.record_decision(run, attention(4096), device, finalists, 0.01);
  store.record_reference(
      run, device,
      {.gpu = 0, .card = "0000:3b:00.0", .tuned = "", .kernel = "one", .median_us = 9.0});
  store.finish_run(run);
}

/// Without what differs from one time to the next, and without a write-ahead log.
void settle(const fs::path& path) {
  SQLite::Database database(path.string(), SQLite::OPEN_READWRITE);
  database.exec("PRAGMA journal_mode = DELETE");
  database.exec(
      "UPDATE run SET started_at = '2026-01-01T00:00:00Z', finished_at = started_at, digest = "
      "NULL");
  database.exec("VACUUM");
}

std::string made() {
  const fs::path path = directory() / "stored.db";
  {
    Store store(path, Store::Mode::read_write);
    fill(store);
  }
  settle(path);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

const std::string& stored_database() {
  static const std::string bytes = made();
  return bytes;
}

}  // namespace swr::fuzz
