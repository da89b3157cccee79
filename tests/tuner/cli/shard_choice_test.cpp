// SPDX-License-Identifier: MIT
#include "tuner/cli/work_source.h"

#include "tests/support/test.h"

namespace swr::cli {
namespace {

using Variables = std::map<std::string, std::string>;

std::string chosen(const Variables& variables, const std::string& asked = "") {
  Environment environment;
  environment.launcher = variables;
  return to_string(choose_shard(asked, environment).shard);
}

std::string error_of(const Variables& variables, const std::string& asked = "") {
  try {
    return "no error but " + chosen(variables, asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

Variables array(const std::string& id, const std::string& count) {
  return {{"SLURM_ARRAY_TASK_ID", id}, {"SLURM_ARRAY_TASK_COUNT", count}};
}

Variables with(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

const Variables kBatchScript{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
const Variables kStep{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}};
const Variables kPmi{{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}};

TEST(ShardChoice, AnOptionWinsOverEveryLauncher) {
  EXPECT_EQ(chosen(with(array("3", "8"), kOpenMpi), "1/2"), "1/2");
  EXPECT_EQ(chosen(array("3", "8"), "0/1"), "0/1");
}

TEST(ShardChoice, ReadsEachLauncher) {
  EXPECT_EQ(chosen({}), "0/1");
  EXPECT_EQ(chosen(array("3", "8")), "3/8");
  EXPECT_EQ(chosen(array("3", "8"), "auto"), "3/8");
  EXPECT_EQ(chosen(kStep), "2/4");
  EXPECT_EQ(chosen(kOpenMpi), "1/3");
  EXPECT_EQ(chosen(kPmi), "5/6");
}

TEST(ShardChoice, CountsArrayElementsFromTheFirst) {
  EXPECT_EQ(chosen(with(array("7", "4"),
                        {{"SLURM_ARRAY_TASK_MIN", "1"}, {"SLURM_ARRAY_TASK_STEP", "2"}})),
            "3/4");
}

TEST(ShardChoice, ABatchScriptIsRunOnce) { EXPECT_EQ(chosen(kBatchScript), "0/1"); }

TEST(ShardChoice, TheInnermostLauncherCounts) {
  EXPECT_EQ(chosen(with(kStep, kOpenMpi)), "1/3");
  EXPECT_EQ(chosen(with(kBatchScript, kOpenMpi)), "1/3");
  EXPECT_EQ(chosen(with(kStep, kPmi)), "2/4");
}

TEST(ShardChoice, RanksWithinAnArrayElementDivideItsShare) {
  EXPECT_EQ(chosen(with(array("3", "8"), kStep)), "14/32");
  EXPECT_EQ(chosen(with(array("3", "8"), kBatchScript)), "3/8");
}

TEST(ShardChoice, SaysWhatIsWrong) {
  EXPECT_THAT(error_of({}, "auto"), HasSubstr("--shard I/N"));
  EXPECT_THAT(error_of({}, "8/8"), HasSubstr("0/8 to 7/8"));
  EXPECT_THAT(error_of(array("x", "8")), HasSubstr("SLURM_ARRAY_TASK_ID is 'x'"));
  EXPECT_THAT(error_of({{"SLURM_ARRAY_TASK_ID", "1"}}), HasSubstr("SLURM_ARRAY_TASK_COUNT is not"));
  EXPECT_THAT(error_of(array("7", "3")), HasSubstr("without gaps"));
  EXPECT_THAT(error_of(with(array("4", "3"), {{"SLURM_ARRAY_TASK_MIN", "5"}})),
              HasSubstr("contradict"));
  EXPECT_THAT(error_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "-2"}}), HasSubstr("PMI_SIZE is '-2'"));
  EXPECT_THAT(error_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "0"}}), HasSubstr("number 1 of 0"));
}

}  // namespace
}  // namespace swr::cli
