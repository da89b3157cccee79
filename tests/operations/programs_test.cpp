// SPDX-License-Identifier: MIT
// Each operation on the command line: predicted, stored, asked for, explained, reported, exported
// and emitted.
#include "tests/tuner/cli/program_fixture.h"

namespace swr {
namespace {

using nlohmann::json;
using test::Arguments;

struct Asked {
  Arguments problem;  ///< --op NAME first.
  Arguments tuning;
  std::vector<std::string> said;  ///< By the run that tunes.
  std::string field;              ///< Of the stored problem.
  json value;
  std::string key;  ///< In the key of the best.
  std::string entry;
  std::vector<std::string> entries;  ///< Of the source.
};

const Arguments kSoftmax = "--op softmax --gpu h200 --rows 512 --columns 3000";
const Arguments kBackward =
    "--op attention_backward --gpu h200 --heads 8 --kv-heads 2 --seq 4096 --head-dim 64 --causal";
const Arguments kFewBackward =
    "--quiet --tile 64x64x4 --stages 1 --order cyclic --persistence grid --parts 1";
const Arguments kServing =
    "--op attention_serving --gpu h200 --batch 8 --heads 8 --kv-heads 2 --seq 1 --seq-kv 4096 "
    "--head-dim 64 --sinks --lengths log_normal";

std::vector<Asked> every_operation() {
  return {
      {.problem = kSoftmax,
       .tuning = "--vector 8 --tile-rows 1 --threads-per-row 128,256 --stages 1,4",
       .said = {"Predicted: softmax rows512 columns3000 fp16 on NVIDIA H200", "threads_per_row",
                "sawtooth against cyclic", "(predicted)"},
       .field = "columns",
       .value = 3000,
       .key = "threads_per_row=",
       .entry = "swr_softmax",
       .entries = {"swr_softmax"}},
      {.problem = kBackward,
       .tuning = kFewBackward + "--form fused",
       .said = {"Predicted: attention_backward b1 h8/2 s4096/4096 d64 fp16 causal on NVIDIA H200",
                "for 8 variants of 4 kernels"},
       .field = "deterministic",
       .value = false,
       .key = "dq_sum=atomic",
       .entry = "swr_attention_backward_key_pass",
       .entries = {"swr_attention_backward_query_pass", "swr_attention_backward_prepare",
                   "swr_attention_backward_key_pass", "swr_attention_backward_finish"}},
      {.problem = kServing,
       .tuning = "--tile 16x64x4 --stages 2 --page-copy row --workers 0,132 --least-units 1,8",
       .said = {"Predicted: attention_serving b8 h8/2 s1/4096 d64 fp16 causal page16 sinks "
                "log_normal on NVIDIA H200",
                "for 8 variants of 2 kernels"},
       .field = "lengths",
       .value = "log_normal",
       .key = "deal=ranges",
       .entry = "swr_serving_attention",
       .entries = {"swr_serving_attention"}}};
}

class OperationProgram : public test::ProgramFixture,
                         public ::testing::WithParamInterface<Asked> {};
INSTANTIATE_TEST_SUITE_P(Operations, OperationProgram, ::testing::ValuesIn(every_operation()),
                         [](const auto& test) { return test.param.problem[1]; });

TEST_P(OperationProgram, IsPredictedStoredExplainedReportedAndExported) {
  const Asked& asked = GetParam();
  const std::string tuned = run(asked.problem + asked.tuning + "--quiet --verbose");
  for (const std::string& text : asked.said) {
    EXPECT_THAT(tuned, HasSubstr(text));
  }
  const json answer = json_of("query" + asked.problem)["answers"][0];
  EXPECT_EQ(answer["match"], "predicted");
  EXPECT_EQ(answer["stored_problem"][asked.field], asked.value);
  EXPECT_THAT(answer["key"].get<std::string>(), HasSubstr(asked.key));

  const json explained = json_of("explain" + asked.problem)["explanations"][0];
  EXPECT_EQ(explained["provenance"], "predicted");
  EXPECT_EQ(explained["key"], answer["key"]);
  EXPECT_GT(explained["resources"]["registers_per_thread"].get<int>(), 0);
  EXPECT_GE(explained["roofline"]["vertical_gap"].get<double>(), 1.0);
  EXPECT_THAT(run("explain" + asked.problem), HasSubstr("roofline (predicted"));

  run("report --out " + path("report.html"));
  EXPECT_THAT(bytes_of(path("report.html")), HasSubstr(asked.problem[1]));
  run("export --out " + path("cubins"));
  const json kernel = json::parse(bytes_of(path("cubins/manifest.json")))["kernels"][0];
  EXPECT_EQ(kernel["entry"], asked.entry);
  EXPECT_TRUE(std::filesystem::exists(path("cubins/" + kernel["file"].get<std::string>())));
  const std::string source =
      run("emit --op " + asked.problem[1] + Arguments{"--variant", answer["key"]});
  for (const std::string& entry : asked.entries) {
    EXPECT_THAT(source, HasSubstr(entry));
  }
}

using SoftmaxProgram = test::ProgramFixture;

TEST_F(SoftmaxProgram, SaysWhatLimitsItAndIsExportedAsAPackage) {
  run(kSoftmax + "--quiet --vector 8 --tile-rows 1 --threads-per-row 128 --stages 1");
  const json explained = json_of("explain" + kSoftmax)["explanations"][0];
  EXPECT_EQ(explained["predicted"]["compulsory_misses_sectors"], 2 * 512 * 3000 * 2 / 32);
  EXPECT_THAT(explained["limits"].dump(), HasSubstr("GB/s that memory gives"));
  run("report --out " + path("report.html"));
  EXPECT_THAT(bytes_of(path("report.html")), HasSubstr("softmax rows512 columns3000 fp16"));
  run("export --format cpp --out " + path("package"));
  EXPECT_TRUE(std::filesystem::exists(path("package/src/softmax_kernels.cpp")));
}

using AttentionBackwardProgram = test::ProgramFixture;

TEST_F(AttentionBackwardProgram, ModelsThatAreTrainedPoseIt) {
  std::ofstream(path("config.json"))
      << R"({"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096})";
  const Arguments plan = "plan --model " + path("config.json") + " --seq 1024,2048 --causal";
  const std::string name = "attention_backward";
  EXPECT_THAT(run(plan), Not(HasSubstr(name)));
  EXPECT_THAT(run(plan + "--training"), HasSubstr("\"gemm\""));
  const std::string list = run(plan + "--training --op " + name);
  EXPECT_THAT(list, AllOf(HasSubstr(name), Not(HasSubstr("\"gemm\""))));
  std::ofstream(path("work.json")) << list;
  EXPECT_THAT(run("--work " + path("work.json") + " --gpu h200 --dry-run"),
              HasSubstr("attention_backward b1 h32/8 s2048/2048 d128 fp16 causal"));
}

/// Results of problems that need no order serve none that do.
TEST_F(AttentionBackwardProgram, DeterministicProblemsHaveAnswersOfTheirOwn) {
  run(kBackward + kFewBackward + "--dq-sum atomic");
  const json answer = json_of("query" + kBackward + "--deterministic")["answers"][0];
  EXPECT_EQ(answer["match"], "default_only");
  EXPECT_THAT(answer["key"].get<std::string>(), Not(HasSubstr("dq_sum=atomic")));
}

using ServingAttentionProgram = test::ProgramFixture;

TEST_F(ServingAttentionProgram, NoSizeMakesUpForAnotherFamilyOfLengths) {
  run(kServing + "--quiet --tile 16x64x4 --stages 2 --page-copy row --workers 0 --least-units 1");
  Arguments other = kServing;
  other.back() = "uniform";
  EXPECT_EQ(json_of("query" + kServing)["answers"][0]["match"], "predicted");
  EXPECT_EQ(json_of("query" + other)["answers"][0]["match"], "default_only");
}

TEST_F(ServingAttentionProgram, AWindowNeedsItsMask) {
  EXPECT_THAT(error_of(kServing + "--window 100 --quiet", 2), HasSubstr("needs the mask 'window'"));
  EXPECT_THAT(run(kServing + "--window 100 --mask window --dry-run"),
              Not(HasSubstr("needs the mask")));
}

}  // namespace
}  // namespace swr
