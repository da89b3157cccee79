// SPDX-License-Identifier: MIT
// Questions without an exact answer, noted while programs serve.
#include "db/missed_questions.h"

#include "tests/db/fixtures.h"
#include <swr/gemm_problem.h>

#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace swr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MissedQuestionsTest : public ::testing::Test {
 protected:
  TempDirectory directory_;
  std::filesystem::path file_ = missed_questions_path(directory_ / "tuned.db");
};

TEST_F(MissedQuestionsTest, LieBesideTheDatabaseAndNoneAreThereAtFirst) {
  EXPECT_EQ(file_, directory_ / "tuned.db.missed");
  EXPECT_THAT(read_missed_questions(file_), IsEmpty());
}

TEST_F(MissedQuestionsTest, AreNotedOnceAProcessWhateverTheOperation) {
  const GemmProblem product{.m = 17, .n = 4096, .k = 4096};
  MissedQuestions missed(file_);
  for (int i = 0; i < 3; ++i) {
    missed.note(problem_of(5000));
    missed.note(product);
  }
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(5000)), Problem(product)));
}

TEST_F(MissedQuestionsTest, ComeMostAskedFirst) {
  MissedQuestions(file_).note(problem_of(1000));
  for (int process = 0; process < 3; ++process) {
    MissedQuestions(file_).note(problem_of(2000));
  }
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(2000)), Problem(problem_of(1000))));
}

TEST_F(MissedQuestionsTest, OfSeveralThreadsAreAllThere) {
  MissedQuestions missed(file_);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&missed, thread] {
      for (int i = 1; i <= 100; ++i) {
        missed.note(problem_of(1000 * thread + i));
        missed.note(problem_of(i));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(read_missed_questions(file_).size(), 400U);
}

TEST_F(MissedQuestionsTest, AreBounded) {
  MissedQuestions missed(file_);
  for (int i = 1; i <= 5000; ++i) {
    missed.note(problem_of(i));
  }
  EXPECT_EQ(read_missed_questions(file_).size(), 4096U);
  for (int process = 0; process < 3; ++process) {
    MissedQuestions more(file_);
    for (int i = 10000; i < 14000; ++i) {
      more.note(problem_of(i));
    }
  }
  EXPECT_LE(std::filesystem::file_size(file_), 1U << 20U);
}

TEST_F(MissedQuestionsTest, ThatCannotBeWrittenAreNone) {
  MissedQuestions(directory_ / "none" / "tuned.db.missed").note(problem_of(1));
  MissedQuestions(directory_.path()).note(problem_of(1));
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0644), 0);
  MissedQuestions(directory_ / "pipe").note(problem_of(1));
  EXPECT_TRUE(std::filesystem::is_fifo(directory_ / "pipe"));
}

TEST_F(MissedQuestionsTest, ThatAreAnsweredAreForgottenAndTheOthersStay) {
  MissedQuestions missed(file_);
  for (const int length : {1000, 2000, 3000}) {
    missed.note(problem_of(length));
  }
  forget_missed_questions(
      file_, [](const Problem& problem) { return problem == Problem(problem_of(2000)); });
  EXPECT_THAT(read_missed_questions(file_),
              ElementsAre(Problem(problem_of(1000)), Problem(problem_of(3000))));
  forget_missed_questions(file_, [](const Problem&) { return true; });
  EXPECT_THAT(read_missed_questions(file_), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path())) << "nothing is left beside it";
}

TEST_F(MissedQuestionsTest, AFileOfAnotherKindIsRefusedWithItsLine) {
  MissedQuestions(file_).note(problem_of(1000));
  std::ofstream(file_, std::ios::app) << "seq=4096\n";
  const Error error = error_of([&] { (void)read_missed_questions(file_); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr("line 2 of " + file_.string()));
}

}  // namespace
}  // namespace swr
