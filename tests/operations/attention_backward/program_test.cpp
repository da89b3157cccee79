// SPDX-License-Identifier: MIT
// Attention backward on the command line: predicted, stored, asked for, explained, reported,
// exported and emitted.
#include "tests/tuner/cli/program_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace swr {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AttentionBackwardProgram : public test::ProgramFixture {
 protected:
  const Arguments kProblem{
      "--gpu", "h200",  "--op", "attention_backward", "--heads", "8",       "--kv-heads",
      "2",     "--seq", "4096", "--head-dim",         "64",      "--causal"};
  const Arguments kFew{"--quiet", "--tile",        "64x64x4", "--stages", "1", "--order",
                       "cyclic",  "--persistence", "grid",    "--parts",  "1"};
};

TEST_F(AttentionBackwardProgram, IsPredictedStoredExplainedReportedAndExported) {
  Arguments few = kFew;
  few.insert(few.end(), {"--form", "fused", "--verbose"});
  const std::string tuned = run(kProblem, few);
  EXPECT_THAT(tuned, HasSubstr("Predicted: attention_backward b1 h8/2 s4096/4096 d64 fp16 causal "
                               "on NVIDIA H200"));
  EXPECT_THAT(tuned, HasSubstr("for 8 variants of 4 kernels"));

  const json answer = json::parse(run({"query", "--json"}, kProblem))["answers"][0];
  EXPECT_EQ(answer["match"], "predicted");
  EXPECT_EQ(answer["stored_problem"]["deterministic"], false);
  EXPECT_THAT(answer["key"].get<std::string>(), HasSubstr("dq_sum=atomic"));

  EXPECT_THAT(run({"explain"}, kProblem), HasSubstr("roofline (predicted"));
  run({"report", "--out", file("report.html")});
  run({"export", "--out", file("cubins")});
  std::ifstream manifest(file("cubins") + "/manifest.json");
  EXPECT_EQ(json::parse(manifest)["kernels"][0]["entry"], "swr_attention_backward_key_pass");
  const std::string source =
      run({"emit", "--op", "attention_backward", "--variant", answer["key"]});
  for (const char* const entry : {"query_pass", "prepare", "key_pass", "finish"}) {
    EXPECT_THAT(source, HasSubstr(std::string("swr_attention_backward_") + entry));
  }
}

TEST_F(AttentionBackwardProgram, ModelsThatAreTrainedPoseIt) {
  std::ofstream(file("config.json"))
      << R"({"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096})";
  const Arguments plan{"plan", "--model", file("config.json"), "--seq", "1024,2048", "--causal"};
  const std::string name = "attention_backward";
  EXPECT_THAT(run(plan), Not(HasSubstr(name)));
  EXPECT_THAT(run(plan, {"--training"}), HasSubstr("\"gemm\""));
  const std::string list = run(plan, {"--training", "--op", name});
  EXPECT_THAT(list, AllOf(HasSubstr(name), Not(HasSubstr("\"gemm\""))));
  std::ofstream(file("work.json")) << list;
  const std::string dry = run({"--work", file("work.json"), "--gpu", "h200", "--dry-run"});
  EXPECT_THAT(dry, HasSubstr("attention_backward b1 h32/8 s2048/2048 d128 fp16 causal"));
}

/// Results of problems that need no order serve none that do.
TEST_F(AttentionBackwardProgram, DeterministicProblemsHaveAnswersOfTheirOwn) {
  Arguments few = kFew;
  few.insert(few.end(), {"--dq-sum", "atomic"});
  run(kProblem, few);
  Arguments deterministic = kProblem;
  deterministic.push_back("--deterministic");
  const json answer = json::parse(run({"query", "--json"}, deterministic))["answers"][0];
  EXPECT_EQ(answer["match"], "default_only");
  EXPECT_THAT(answer["key"].get<std::string>(), Not(HasSubstr("dq_sum=atomic")));
}

}  // namespace
}  // namespace swr
