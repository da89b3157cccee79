// SPDX-License-Identifier: MIT
// Softmax on the command line: predicted, stored, asked for, explained, reported and exported.
#include "tests/tuner/cli/program.h"

#include "tests/support/test.h"

#include <nlohmann/json.hpp>

namespace swr {
namespace {

using nlohmann::json;

class SoftmaxProgram : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  std::string run(Arguments arguments, const Arguments& more = {}) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result =
        test::Program(arguments, {"HOME=" + directory_.path().string()}, directory_.path())
            .finish();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  const Arguments kProblem{"--gpu",  "h200", "--op",      "softmax",
                           "--rows", "512",  "--columns", "3000"};
  TempDirectory directory_;
};

TEST_F(SoftmaxProgram, IsPredictedStoredExplainedReportedAndExported) {
  const std::string tuned = run(kProblem, {"--quiet", "--verbose", "--vector", "8", "--tile-rows",
                                           "1", "--threads-per-row", "128,256", "--stages", "1,4"});
  EXPECT_THAT(tuned, HasSubstr("Predicted: softmax rows512 columns3000 fp16 on NVIDIA H200"));
  EXPECT_THAT(tuned, HasSubstr("threads_per_row"));
  EXPECT_THAT(tuned, HasSubstr("sawtooth against cyclic"));
  EXPECT_THAT(tuned, HasSubstr("(predicted)"));

  Arguments query{"query", "--json"};
  query.insert(query.end(), kProblem.begin(), kProblem.end());
  const json answer = json::parse(run(query))["answers"][0];
  EXPECT_EQ(answer["match"], "predicted");
  EXPECT_EQ(answer["stored_problem"]["columns"], 3000);

  Arguments explain{"explain", "--json"};
  explain.insert(explain.end(), kProblem.begin(), kProblem.end());
  const json explained = json::parse(run(explain))["explanations"][0];
  EXPECT_EQ(explained["provenance"], "predicted");
  EXPECT_EQ(explained["key"], answer["key"]);
  EXPECT_GT(explained["resources"]["registers_per_thread"].get<int>(), 0);
  EXPECT_GE(explained["roofline"]["vertical_gap"].get<double>(), 1.0);
  EXPECT_EQ(explained["predicted"]["compulsory_misses_sectors"], 2 * 512 * 3000 * 2 / 32);
  EXPECT_THAT(explained["limits"].dump(), HasSubstr("GB/s that memory gives"));
  explain.erase(explain.begin() + 1);
  EXPECT_THAT(run(explain), HasSubstr("roofline (predicted"));

  run({"report", "--out", file("report.html")});
  std::ifstream page(file("report.html"));
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  EXPECT_THAT(html, HasSubstr("softmax rows512 columns3000 fp16"));

  run({"export", "--out", file("cubins")});
  std::ifstream manifest(file("cubins") + "/manifest.json");
  const json kernel = json::parse(manifest)["kernels"][0];
  EXPECT_EQ(kernel["entry"], "swr_softmax");
  EXPECT_TRUE(std::filesystem::exists(file("cubins") + "/" + kernel["file"].get<std::string>()));
  run({"export", "--format", "cpp", "--out", file("package")});
  EXPECT_TRUE(std::filesystem::exists(file("package") + "/src/softmax_kernels.cpp"));
  EXPECT_THAT(run({"emit", "--op", "softmax", "--variant", answer["key"]}),
              HasSubstr("swr_softmax"));
}

}  // namespace
}  // namespace swr
