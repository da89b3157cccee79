// SPDX-License-Identifier: MIT
// Variants that break their process, one way each: who is blamed, and that the next one is
// measured.
#include "tuner/supervise/supervised_evaluator.h"

#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include "tests/tuner/supervise/supervision.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

using namespace test;

const AttentionProblem kProblem{.heads_q = 4, .heads_kv = 4, .seq_q = 128, .seq_kv = 128};

CompiledKernel some_kernel() {
  return {.entry = "swr_attention",
          .sm_arch = 80,
          .cubin = std::vector<std::byte>(300'000, std::byte{0xff}),  // More than a socket buffers.
          .cubin_digest = "abc",
          .source_digest = "def",
          .resources = {.registers_per_thread = 64},
          .from_cache = true};
}

AttentionVariant behaving(int behaviour) {
  return {.persistence = Persistence::persistent, .workers = behaviour};
}

class Supervision : public ::testing::Test {
 protected:
  SupervisedEvaluator& evaluator() {
    if (!evaluator_) {
      evaluator_.emplace(options_);
    }
    return *evaluator_;
  }
  VariantResult evaluate(int behaviour) {
    return evaluator().evaluate(kProblem, behaving(behaviour), kernel_);
  }
  /// Fails unless the next variant is measured; returns the process it was measured in.
  pid_t next_is_good() {
    const VariantResult result = evaluate(kGood);
    EXPECT_EQ(result.state, ResultState::ok) << result.detail;
    return process_of(result);
  }
  Error error_at_start(const SuperviseOptions& options) {
    try {
      const SupervisedEvaluator unused(options);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "it started";
    return {ErrorCode::invalid_argument, ""};
  }

  WorkerDirectory directory_;
  SuperviseOptions options_ = directory_.options();
  CompiledKernel kernel_ = some_kernel();
  std::optional<SupervisedEvaluator> evaluator_;
};

TEST_F(Supervision, PassesEveryFieldOfAResultAndKeepsTheProcess) {
  const VariantResult result = evaluate(kGood);
  ASSERT_EQ(result.state, ResultState::ok) << result.detail;
  EXPECT_EQ(result.variant, behaving(kGood));
  EXPECT_EQ(result.resources, kernel_.resources);
  EXPECT_EQ(result.smem_bytes, smem_bytes(kProblem, result.variant));
  EXPECT_EQ(result.ctas_per_sm, 1);
  EXPECT_EQ(result.cubin_digest, "abc");
  EXPECT_EQ(result.measurement()->samples_us, std::vector<double>{2.0});
  EXPECT_EQ(result.measurement()->counters_missing_because, "a fake has no counters");
  EXPECT_EQ(evaluator().device().name, "Fictional One");
  EXPECT_EQ(next_is_good(), process_of(result));
}

TEST_F(Supervision, PreparesAProblemOnceInEachProcess) {
  for (int i = 0; i < 3; ++i) {
    evaluator().prepare(kProblem);
  }
  const VariantResult first = evaluate(kTellsHowOftenItPrepared);
  EXPECT_EQ(first.measurement()->median_us, 1.0) << first.detail;
  evaluator().prepare(kProblem);
  EXPECT_EQ(evaluate(kTellsHowOftenItPrepared).measurement()->median_us, 1.0);
  EXPECT_EQ(process_of(evaluate(kTellsHowOftenItPrepared)), process_of(first));
  evaluate(kCrashes);
  evaluator().prepare(kProblem);
  EXPECT_EQ(evaluate(kTellsHowOftenItPrepared).measurement()->median_us, 1.0);
}

TEST_F(Supervision, WaitsForNoProcessWhereTheGpuIsKnown) {
  options_.device = fictional_device();
  evaluator().prepare(kProblem);
  EXPECT_EQ(evaluator().device().name, "Fictional One");
  EXPECT_EQ(evaluate(kTellsHowOftenItPrepared).measurement()->median_us, 1.0);
  next_is_good();
}

TEST_F(Supervision, SaysAtTheFirstQuestionThatNoProcessStarts) {
  options_ = directory_.options(kDiesAtStart);
  options_.device = fictional_device();
  evaluator().prepare(kProblem);
  try {
    evaluate(kGood);
    ADD_FAILURE() << "it started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("failed to start 3 times"));
  }
}

TEST_F(Supervision, RefusesAnotherGpuThanTheOneThatIsKnown) {
  options_.device = fictional_device();
  options_.device->sm_count *= 2;
  EXPECT_THAT([&] { evaluate(kGood); },
              ::testing::ThrowsMessage<Error>(HasSubstr("the GPU changed")));
}

TEST_F(Supervision, LeavesOutOfReferenceTrialsWhatEndedOne) {
  options_.deadline = std::chrono::milliseconds(500);
  AttentionProblem problem = kProblem;
  problem.batch = kRunsTrials;
  for (const bool prepares : {false, true}) {
    evaluator_.emplace(options_);
    if (prepares) {
      evaluator().prepare(problem);
    }
    const VariantResult good = evaluator().evaluate(problem, behaving(kGood), kernel_);
    EXPECT_EQ(good.state, ResultState::ok) << good.detail;
    EXPECT_EQ(evaluator().evaluate(problem, behaving(kCrashes), kernel_).state, ResultState::crash)
        << "what a variant does after the trials is its own";
    EXPECT_EQ(evaluator().evaluate(problem, behaving(kGood), kernel_).state, ResultState::ok);
  }
}

TEST_F(Supervision, AProcessThatDiesWhilePreparingCostsNoVariant) {
  AttentionProblem problem = kProblem;
  problem.batch = kCrashesWhenPrepared;
  evaluator().prepare(problem);
  EXPECT_EQ(evaluator().evaluate(problem, behaving(kGood), kernel_).state, ResultState::ok);
  options_.deadline = std::chrono::milliseconds(500);
  evaluator_.emplace(options_);
  problem.batch = kHangsWhenPreparedOnce;
  evaluator().prepare(problem);
  EXPECT_EQ(evaluator().evaluate(problem, behaving(kGood), kernel_).state, ResultState::ok);
}

TEST_F(Supervision, BlamesAVariantThatCrashes) {
  const VariantResult result = evaluate(kCrashes);
  EXPECT_EQ(result.state, ResultState::crash);
  EXPECT_THAT(result.detail, HasSubstr("SIGSEGV"));
  EXPECT_THAT(result.detail, HasSubstr("core files of 0 bytes"));
  EXPECT_EQ(result.variant, behaving(kCrashes));
  EXPECT_EQ(result.cubin_digest, "abc");
  EXPECT_GE(result.ctas_per_sm, 1);
  next_is_good();
}

TEST_F(Supervision, BlamesAVariantThatHangs) {
  options_.deadline = std::chrono::milliseconds(2000);
  const VariantResult result = evaluate(kHangs);
  EXPECT_EQ(result.state, ResultState::timeout);
  EXPECT_THAT(result.detail, HasSubstr("2000 ms"));
  next_is_good();
}

TEST_F(Supervision, PassesWrongNumbersThroughAndKeepsTheProcess) {
  const pid_t process = next_is_good();
  const VariantResult result = evaluate(kIsWrong);
  EXPECT_EQ(result.state, ResultState::correctness);
  EXPECT_TRUE(std::isinf(result.measurement()->relative_error));
  EXPECT_EQ(next_is_good(), process);
}

TEST_F(Supervision, BlamesAVariantThatExhaustsMemory) {
  const VariantResult result = evaluate(kExhaustsMemory);
  EXPECT_EQ(result.state, ResultState::crash);
  EXPECT_THAT(result.detail, HasSubstr("last words"));
  next_is_good();
}

TEST_F(Supervision, BlamesAVariantThatFaultsAndRenewsTheProcess) {
  const pid_t process = next_is_good();
  const VariantResult result = evaluate(kFaults);
  EXPECT_EQ(result.state, ResultState::runtime);
  EXPECT_THAT(result.detail, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_NE(next_is_good(), process);
}

TEST_F(Supervision, DoesNotBlameAVariantForWhatOneBeforeItDamaged) {
  const VariantResult culprit = evaluate(kDamagesTheProcess);
  ASSERT_EQ(culprit.state, ResultState::ok);
  EXPECT_NE(next_is_good(), process_of(culprit));
}

TEST_F(Supervision, DoesNotBlameAVariantWhoseProcessIsKilledFromOutside) {
  evaluator();
  std::thread killer([&] { kill(Meeting(directory_.path()).process(), SIGKILL); });
  const VariantResult result = evaluate(kWaitsOnce);
  killer.join();
  EXPECT_EQ(result.state, ResultState::ok) << result.detail;
}

TEST_F(Supervision, RenewsAProcessThatDiedBetweenTwoVariants) {
  const pid_t process = next_is_good();
  kill_and_wait(process);
  EXPECT_NE(next_is_good(), process);
}

TEST_F(Supervision, KeepsTheLastWordsOfAProcessThatPrintsALot) {
  const VariantResult result = evaluate(kCrashesLoudly);
  EXPECT_EQ(result.state, ResultState::crash);
  EXPECT_THAT(result.detail, EndsWith("its last words: the last straw"));
}

TEST_F(Supervision, BlamesAVariantAfterWhichTheProcessTalksNonsense) {
  EXPECT_EQ(evaluate(kTalksNonsense).state, ResultState::crash);
  next_is_good();
}

TEST_F(Supervision, PassesTheEvaluatorsErrorOnWhenANewProcessMeetsItToo) {
  EXPECT_EQ(message_of(ErrorCode::driver_failed, [&] { evaluate(kLosesTheDevice); }),
            "the device fell off the bus");
  EXPECT_EQ(evaluate(kLosesTheDeviceOnce).state, ResultState::ok);
}

TEST_F(Supervision, SaysWhyItCannotStart) {
  EXPECT_EQ(error_at_start(directory_.options(kWithoutDevice)).code(), ErrorCode::no_driver);
  const Error dead = error_at_start(directory_.options(kDiesAtStart));
  EXPECT_EQ(dead.code(), ErrorCode::driver_failed);
  EXPECT_THAT(dead.what(), AllOf(HasSubstr("exit code 3"), HasSubstr("no time to live"),
                                 HasSubstr("--no-isolation")));
  options_.command.program = directory_.path() / "none";
  EXPECT_THAT(error_at_start(options_).what(), HasSubstr("cannot be executed"));
}

TEST_F(Supervision, LeavesOnlyTheVariantThatCrashesWithoutCounters) {
  const std::vector<Contender> contenders{{behaving(kGood), &kernel_},
                                          {behaving(kCrashesWhenCounted), &kernel_},
                                          {behaving(kGood), &kernel_}};
  const auto readings = evaluator().count(kProblem, contenders);
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].counters.value().l2_hits, 7);
  EXPECT_FALSE(readings[1].counters.has_value());
  EXPECT_THAT(readings[1].missing_because, HasSubstr("SIGSEGV"));
  EXPECT_TRUE(readings[2].counters.has_value());
}

TEST_F(Supervision, RacesInTheProcessAndEndsTheRunWhenThatFailsTwice) {
  std::vector<Contender> contenders{{behaving(kGood), &kernel_}, {behaving(kIsWrong), &kernel_}};
  const RaceResult race = evaluator().race(kProblem, contenders, {.rounds = 3});
  EXPECT_EQ(race.samples_us, (std::vector<std::vector<double>>{{2, 2, 2}, {5, 5, 5}}));
  contenders[1].variant = behaving(kCrashesWhenCounted);
  EXPECT_THROW(evaluator().race(kProblem, contenders, {.rounds = 3}), Error);
  next_is_good();
}

TEST_F(Supervision, KeepsCtrlCAwayFromTheProcessAndStillLetsItBeInterrupted) {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);  // As swr-tune does.
  const pid_t process = next_is_good();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(getpgid(process), process);
  kill_and_wait(process, SIGINT);
  EXPECT_NE(next_is_good(), process);
}

TEST_F(Supervision, LeavesNoProcessBehind) {
  const pid_t process = next_is_good();
  evaluator_.reset();
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(DefaultDeadline, GrowsWithTheProblem) {
  EXPECT_EQ(default_deadline(kProblem).count() / 1000, 60);
  const AttentionProblem large{.heads_q = 16, .heads_kv = 16, .seq_q = 131072, .seq_kv = 131072};
  EXPECT_GT(default_deadline(large), std::chrono::minutes(10));
}

}  // namespace
}  // namespace swr
