// SPDX-License-Identifier: MIT
// One answer whatever is asked: tune, query, explain, export, report and Lookup name the same
// variant for a problem that something is stored of, in every order of commands.
#include "core/json.h"
#include "db/history.h"
#include "export/manifest.h"
#include "model/profile/gpu_profile.h"
#include "report/page/page_data.h"
#include "tests/support/attention.h"
#include "tests/support/kept_folder.h"
#include "tests/support/test.h"
#include "tuner/cli/commands.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/lookup.h>
#include <swr/store.h>

namespace swr::cli {
namespace {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A problem on a GPU that is not here, and two parts of its space of a kernel or two each.
struct Case {
  std::string gpu;
  Arguments problem;
  Arguments one;
  Arguments other;
};

class OneTruth : public ::testing::Test {
 protected:
  std::string run_program(const Arguments& arguments) {
    Environment environment{.cache_dir = kept_kernels().string()};
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(run(arguments + Arguments{"--db", database_.string()}, environment, out, err), 0)
        << err.str();
    return out.str();
  }

  /// What a run says that queries answer from then on.
  std::string tuned(const Case& asked, const Arguments& axes) {
    const Arguments all = asked.problem + axes + Arguments{"--gpu", asked.gpu, "--json", "--quiet"};
    const Json report = Json::parse(run_program(all))["reports"][0];
    problem_ = report["problem"].get<Problem>();
    return report["answer"].is_null() ? report["best"].get<std::string>()
                                      : report["answer"]["key"].get<std::string>();
  }

  /// By way in.
  std::map<std::string, std::string> answers(const Case& asked) {
    const DeviceInfo device = load_profile(asked.gpu).device;
    const Arguments question = asked.problem + Arguments{"--gpu", asked.gpu, "--json"};
    std::map<std::string, std::string> keys;
    keys["query"] = Json::parse(run_program(Arguments{"query"} + question))["answers"][0]["key"];
    keys["explain"] =
        Json::parse(run_program(Arguments{"explain"} + question))["explanations"][0]["key"];
    keys["Lookup"] = to_key(Lookup(database_).best(problem_, device).variant);
    run_program({"export", "--out", (directory_ / "kernels").string()});
    for (const ExportedKernel& kernel : read_manifest(directory_ / "kernels").kernels) {
      if (kernel.problem == problem_ && same_device(kernel.device, device)) {
        keys["export"] = to_key(kernel.variant);
      }
    }
    return keys;
  }

  void expect_all(const Case& asked, const std::string& key) {
    for (const auto& [way, answer] : answers(asked)) {
      EXPECT_EQ(answer, key) << way << " of " << to_string(problem_) << " on " << asked.gpu;
    }
  }

  /// The report's fields of the problem.
  std::vector<Json> fields() const {
    const Store store(database_, Store::Mode::read_only);
    const History history = read_history(database_);
    std::set<long long> winners;
    for (const StoredResult& winner : store.winners()) {
      winners.insert(winner.id);
    }
    const Json data = page_data(history, winners, {});
    std::vector<Json> found;
    for (const Json& field : data["fields"]) {
      if (field["problem"].get<Problem>() == problem_) {
        found.push_back(field);
      }
    }
    return found;
  }

  void record(const Problem& problem, const std::string& gpu, const Variant& variant,
              double median_us) {
    VariantResult result{.variant = variant};
    result.resources.registers_per_thread = 128;
    result.smem_bytes = smem_bytes(problem, variant);
    result.ctas_per_sm = 1;
    result.outcome = Measurement{.samples_us = {median_us},
                                 .median_us = median_us,
                                 .p95_us = median_us,
                                 .counters_missing_because = "not asked for"};
    Store store(database_, Store::Mode::read_write);
    store.record(store.begin_run({.command = "test", .swr_version = "0", .l2_state = "warm"}),
                 problem, load_profile(gpu).device, result);
  }

  const TempDirectory directory_;
  const std::filesystem::path database_ = directory_ / "tuned.db";
  Problem problem_;
};

/// Of several GPUs and operations.
const std::vector<Case> kCases{
    {"gb10",
     {"--seq", "1024"},
     {"--tile", "64x64", "--stages", "1", "--persistence", "persistent"},
     {"--tile", "32x32", "--stages", "1", "--persistence", "grid"}},
    {"rtx5090",
     {"--op", "gemm", "--m", "512", "--n", "512", "--k", "512", "--dtype", "bf16"},
     {"--tile", "64x64", "--tile-k", "32", "--stages", "3", "--persistence", "grid"},
     {"--tile", "128x128", "--tile-k", "32", "--stages", "2", "--persistence", "grid"}},
    {"h100",
     {"--op", "softmax", "--rows", "512", "--columns", "1024"},
     {"--threads-per-row", "128", "--tile-rows", "1", "--held", "0"},
     {"--threads-per-row", "512", "--tile-rows", "1", "--held", "0"}},
    {"l40s",
     {"--op", "attention_serving", "--seq", "1", "--seq-kv", "1024", "--batch", "4"},
     {"--deal", "ranges", "--tile", "16x64", "--stages", "1", "--page-copy", "row"},
     {"--deal", "direct", "--tile", "16x64", "--stages", "2", "--page-copy", "row"}},
    {"a100",
     {"--op", "attention_backward", "--seq", "512"},
     {"--form", "two_pass", "--tile", "64x64", "--stages", "1", "--order", "cyclic",
      "--persistence", "grid", "--parts", "1", "--rows-at-once", "32", "--query-tile-m", "64"},
     {"--form", "fused", "--dq-sum", "atomic", "--tile", "64x64", "--stages", "1", "--order",
      "cyclic", "--persistence", "grid", "--parts", "1", "--rows-at-once", "32"}}};

TEST_F(OneTruth, WhatWasPredictedAnswersInEveryOrderOfRuns) {
  for (const Case& asked : kCases) {
    for (const bool begins_with_one : {true, false}) {
      std::filesystem::remove(database_);
      const Arguments& first = begins_with_one ? asked.one : asked.other;
      const Arguments& second = begins_with_one ? asked.other : asked.one;
      expect_all(asked, tuned(asked, first));
      expect_all(asked, tuned(asked, second));
      const std::string last = tuned(asked, first);
      expect_all(asked, last);
      ASSERT_EQ(fields().size(), 1U);
      EXPECT_TRUE(fields()[0]["answers"]["best"].is_string());
      const Json columns = page_data(read_history(database_), {}, {})["columns"];
      const auto key = std::ranges::find(columns, Json("key")) - columns.begin();
      EXPECT_EQ(fields()[0]["rows"][0][static_cast<std::size_t>(key)], last);
    }
  }
}

TEST_F(OneTruth, NeighboursAndWhatIsMeasuredOfThemDoNotHideAPrediction) {
  const Case& asked = kCases.front();
  const AttentionVariant good{.tile_m = 128, .tile_n = 64};
  for (const int seq : {1000, 1100, 4096}) {
    record(AttentionProblem{.seq_q = seq, .seq_kv = seq}, asked.gpu, good, 5.0);
  }
  expect_all(asked, tuned(asked, asked.one));
}

TEST_F(OneTruth, AMeasurementOfTheProblemAnswersWhateverIsPredictedOfIt) {
  const Case& asked = kCases.front();
  const AttentionVariant slow{.tile_m = 128, .tile_n = 64};
  for (const bool is_measured_first : {true, false}) {
    std::filesystem::remove(database_);
    problem_ = AttentionProblem{.seq_q = 1024, .seq_kv = 1024};
    if (is_measured_first) {
      record(problem_, asked.gpu, slow, 1e6);
      EXPECT_EQ(tuned(asked, asked.one), to_key(slow));
    } else {
      tuned(asked, asked.one);
      record(problem_, asked.gpu, slow, 1e6);
    }
    expect_all(asked, to_key(slow));
  }
}

/// The same with twice the batch or rows.
Problem grown(const Problem& problem) {
  Json fields = problem;
  const char* const size = fields.contains("batch") ? "batch" : "rows";
  fields[size] = 2 * fields[size].get<int>();
  return fields.get<Problem>();
}

TEST_F(OneTruth, EveryOperationHasOneAnswerBesideNeighboursOtherGpusAndMeasurements) {
  for (const Case& asked : kCases) {
    const DeviceInfo device = load_profile(asked.gpu).device;
    std::filesystem::remove(database_);
    const std::string other = tuned(asked, asked.other);
    const Variant measured = Lookup(database_).best(problem_, device).variant;
    std::filesystem::remove(database_);
    const std::string key = tuned(asked, asked.one);
    record(grown(problem_), asked.gpu, measured, 5.0);
    record(problem_, "h200", measured, 5.0);
    record(problem_, "rtx3090", measured, 5.0);
    expect_all(asked, key);
    record(problem_, asked.gpu, measured, 1e6);
    EXPECT_EQ(tuned(asked, asked.one), other);
    expect_all(asked, other);
    EXPECT_EQ(fields().size(), 4U) << "two provenances here, one on each other GPU";
  }
}

/// Beside which a prediction of the same problem is no news.
TEST_F(OneTruth, WhatCameWithSwrAnswersBeforeAndAfterAPredictionOfTheSame) {
  const Case asked{"h200",
                   {"--batch", "2", "--heads", "32", "--kv-heads", "8", "--seq", "8192",
                    "--head-dim", "128", "--dtype", "bf16", "--causal"},
                   {"--family", "portable", "--tile", "128x64", "--stages", "2", "--persistence",
                    "grid", "--order", "cyclic", "--swizzle", "q_fastest"},
                   {}};
  Store(database_, Store::Mode::read_write);
  const std::string key = Json::parse(run_program(Arguments{"query", "--gpu", asked.gpu, "--json"} +
                                                  asked.problem))["answers"][0]["key"];
  EXPECT_THAT(run_program(Arguments{"explain", "--gpu", asked.gpu} + asked.problem),
              HasSubstr("came with swr (measured "));
  EXPECT_EQ(tuned(asked, asked.one), key);
  expect_all(asked, key);
  ASSERT_EQ(fields().size(), 1U);
  EXPECT_THAT(fields()[0]["answers"]["best"].get<std::string>(),
              HasSubstr("which was measured and came with swr"));
}

/// A whole space whose best lies in another family than the portable one.
TEST_F(OneTruth, ExplainFindsWhatTuneFinds) {
  const Arguments problem{"--op",      "softmax", "--rows", "4096",
                          "--columns", "2048",    "--gpu",  "gb10"};
  const Json explained =
      Json::parse(run_program(Arguments{"explain", "--json"} + problem))["explanations"][0];
  EXPECT_THAT(explained["chosen"].get<std::string>(), HasSubstr("best predicted"));
  const Json report =
      Json::parse(run_program(problem + Arguments{"--json", "--quiet"}))["reports"][0];
  EXPECT_EQ(explained["key"], report["best"]);
}

/// The demonstration of the paper: the order costs time, though its bytes take none.
TEST_F(OneTruth, ExplainAdvisesWhatThePredictionOfTheOtherOrderSays) {
  const Arguments demo{"--gpu", "gb10", "--seq", "131072"};
  const Json report = Json::parse(
      run_program(demo + Arguments{"--tile", "64x64", "--stages", "1", "--persistence",
                                   "persistent", "--workers", "48", "--order", "cyclic,sawtooth",
                                   "--json", "--quiet"}))["reports"][0];
  const double sawtooth_us = report["results"][0]["metrics"]["time_us"];
  const double cyclic_us = report["results"][1]["metrics"]["time_us"];
  ASSERT_LT(sawtooth_us, 0.9 * cyclic_us);
  const std::string cyclic = report["results"][1]["key"];
  const Json explained = Json::parse(
      run_program(Arguments{"explain", "--json", "--variant", cyclic} + demo))["explanations"][0];
  const Json& alternatives = explained["alternatives"];
  const auto order = std::ranges::find(alternatives, Json("order=sawtooth"),
                                       [](const Json& one) { return one["choice"]; });
  ASSERT_NE(order, alternatives.end());
  EXPECT_NEAR((*order)["time_ratio"].get<double>(), sawtooth_us / cyclic_us, 0.02);
  EXPECT_GT(explained["predicted"]["miss_wait_us"].get<double>(), 0.5 * (cyclic_us - sawtooth_us));
  EXPECT_THAT(run_program(Arguments{"explain", "--variant", cyclic} + demo),
              HasSubstr("order=sawtooth changes the time by -"));
}

}  // namespace
}  // namespace swr::cli
