// SPDX-License-Identifier: MIT
// Attention over unequal sequences on the command line: predicted, stored, asked for, explained,
// reported, exported and emitted.
#include "tests/tuner/cli/program_fixture.h"

#include <nlohmann/json.hpp>

namespace swr {
namespace {

using nlohmann::json;

class ServingAttentionProgram : public test::ProgramFixture {
 protected:
  const Arguments kProblem{"--gpu",      "h200",       "--op",       "attention_serving",
                           "--batch",    "8",          "--heads",    "8",
                           "--kv-heads", "2",          "--seq",      "1",
                           "--seq-kv",   "4096",       "--head-dim", "64",
                           "--lengths",  "log_normal", "--sinks"};
};

TEST_F(ServingAttentionProgram, IsPredictedStoredExplainedReportedAndExported) {
  const std::string tuned =
      run(kProblem, {"--quiet", "--verbose", "--tile", "16x64x4", "--stages", "2", "--page-copy",
                     "row", "--workers", "0,132", "--least-units", "1,8"});
  EXPECT_THAT(tuned, HasSubstr("Predicted: attention_serving b8 h8/2 s1/4096 d64 fp16 causal "
                               "page16 sinks log_normal on NVIDIA H200"));
  EXPECT_THAT(tuned, HasSubstr("for 8 variants of 2 kernels"));

  const Arguments query{"query", "--json"};
  const json answer = json::parse(run(query, kProblem))["answers"][0];
  EXPECT_EQ(answer["match"], "predicted");
  EXPECT_EQ(answer["stored_problem"]["lengths"], "log_normal");
  EXPECT_THAT(answer["key"].get<std::string>(), HasSubstr("deal=ranges"));

  Arguments other = kProblem;
  other[17] = "uniform";
  EXPECT_EQ(json::parse(run(query, other))["answers"][0]["match"], "default_only")
      << "no size makes up for another family of lengths";

  EXPECT_THAT(run({"explain"}, kProblem), HasSubstr("roofline (predicted"));
  run({"report", "--out", file("report.html")});
  run({"export", "--out", file("cubins")});
  std::ifstream manifest(file("cubins") + "/manifest.json");
  EXPECT_EQ(json::parse(manifest)["kernels"][0]["entry"], "swr_serving_attention");
  EXPECT_THAT(run({"emit", "--op", "attention_serving", "--variant", answer["key"]}),
              HasSubstr("swr_serving_attention"));
}

TEST_F(ServingAttentionProgram, AWindowNeedsItsMask) {
  const auto wrong = result_of(kProblem, {"--window", "100", "--quiet"});
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.err, HasSubstr("needs the mask 'window'"));
  EXPECT_THAT(run(kProblem, {"--window", "100", "--mask", "window", "--dry-run"}),
              Not(HasSubstr("needs the mask")));
}

}  // namespace
}  // namespace swr
