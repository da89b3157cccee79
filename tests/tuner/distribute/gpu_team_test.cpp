// SPDX-License-Identifier: MIT
// Several GPUs that share problems: who does what, what each has done, what is shown.
#include "tuner/distribute/gpu_team.h"

#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include "tuner/distribute/gpu_history.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <condition_variable>

namespace swr {
namespace {
using test::FakeEvaluator;
using test::fictional_device;
using ::testing::UnorderedElementsAre;

/// Notes what happens; `at_tune` is what tuning does.
class NotedWork final : public TeamWork {
 public:
  using Tuning = std::function<void(std::size_t member, Evaluator&, std::size_t piece)>;

  explicit NotedWork(std::size_t members)
      : devices(members, fictional_device()), pieces(members), checks(members, 0) {}

  std::unique_ptr<Evaluator> start(std::size_t member) override {
    if (start_fails_for == member) {
      throw Error(ErrorCode::driver_failed, "no context");
    }
    auto evaluator = std::make_unique<FakeEvaluator>(devices[member]);
    evaluator->ahead = ahead;
    if (fall_off_the_bus.contains(member)) {
      evaluator->script = [](VariantResult&) {
        throw Error(ErrorCode::driver_failed, "the GPU fell off the bus");
      };
    }
    return evaluator;
  }
  void check(std::size_t member, Evaluator& /*evaluator*/,
             std::optional<std::size_t> /*tuned*/) override {
    ++checks[member];
  }
  void tune(std::size_t member, Evaluator& evaluator, std::size_t piece) override {
    if (at_tune) {
      at_tune(member, evaluator, piece);
    }
    pieces[member].push_back(piece);
  }
  void lost(std::size_t member, const Error& why) override { losses[member] = why.what(); }

  std::vector<std::size_t> all_pieces() const {
    std::vector<std::size_t> all;
    for (const auto& some : pieces) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  std::vector<DeviceInfo> devices;
  std::optional<std::size_t> start_fails_for;
  std::size_t ahead = 0;  ///< FakeEvaluator::ahead of all.
  /// Members whose evaluators throw.
  std::set<std::size_t> fall_off_the_bus;
  Tuning at_tune;
  std::vector<std::vector<std::size_t>> pieces;
  std::vector<int> checks;
  std::map<std::size_t, std::string> losses;
};

HandOut::Source counting(std::size_t pieces) {
  return [next = std::size_t{0}, pieces]() mutable {
    return next < pieces ? std::optional(next++) : std::nullopt;
  };
}

TEST(HandOut, GivesEveryPieceToOneThread) {
  constexpr std::size_t kPieces = 500;
  HandOut hand_out(counting(kPieces));
  std::mutex mutex;
  std::vector<std::size_t> taken;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        while (const auto piece = hand_out.take()) {
          {
            const std::lock_guard lock(mutex);
            taken.push_back(*piece);
          }
          hand_out.done();
        }
      });
    }
  }
  std::vector<std::size_t> all(kPieces);
  for (std::size_t i = 0; i < kPieces; ++i) {
    all[i] = i;
  }
  EXPECT_THAT(taken, ::testing::UnorderedElementsAreArray(all));
}

TEST(HandOut, WhoFindsNothingGetsWhatAnotherGivesBack) {
  HandOut hand_out(counting(1));
  ASSERT_EQ(hand_out.take(), 0U);
  auto other = std::async(std::launch::async, [&] { return hand_out.take(); });
  EXPECT_TRUE(hand_out.give_back(0));
  EXPECT_EQ(other.get(), 0U);
  hand_out.done();
  EXPECT_EQ(hand_out.take(), std::nullopt);
}

TEST(HandOut, WhoFindsNothingEndsWhenTheLastPieceIsDone) {
  HandOut hand_out(counting(1));
  ASSERT_EQ(hand_out.take(), 0U);
  auto other = std::async(std::launch::async, [&] { return hand_out.take(); });
  hand_out.done();
  EXPECT_EQ(other.get(), std::nullopt);
}

TEST(HandOut, EndsWhenAPieceComesBackAgain) {
  HandOut hand_out(counting(2));
  const auto first = hand_out.take();
  EXPECT_TRUE(hand_out.give_back(*first));
  EXPECT_EQ(hand_out.take(), first);
  EXPECT_FALSE(hand_out.give_back(*first));
  EXPECT_FALSE(hand_out.take());
}

TEST(HandOut, GivesNothingOnceItIsClosed) {
  HandOut hand_out(counting(3));
  ASSERT_TRUE(hand_out.take());
  ASSERT_TRUE(hand_out.take());
  ASSERT_TRUE(hand_out.take());
  auto waiting = std::async(std::launch::async, [&] { return hand_out.take(); });
  hand_out.close();
  EXPECT_EQ(waiting.get(), std::nullopt);
  hand_out.give_back(0);
  EXPECT_EQ(hand_out.take(), std::nullopt);
}

/// Has the GPU measure something, which one that fell off the bus does not survive.
void measure(Evaluator& evaluator) {
  evaluator.evaluate(AttentionProblem{.seq_q = 64, .seq_kv = 64}, AttentionVariant{},
                     {.resources = {.registers_per_thread = 64}});
}

/// What run_team() throws.
template <typename Exception = Error>
std::string failure(std::span<const int> gpus, std::size_t pieces, NotedWork& work) {
  try {
    run_team(gpus, counting(pieces), work);
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

constexpr int kTwo[] = {0, 1};
constexpr int kThree[] = {0, 1, 2};

TEST(GpuTeam, HandsEveryQuestionOnToItsGpu) {
  NotedWork work(1);
  std::vector<std::string> answers;
  work.at_tune = [&](std::size_t /*member*/, Evaluator& evaluator, std::size_t /*piece*/) {
    const AttentionProblem problem{.seq_q = 64, .seq_kv = 64};
    const CompiledKernel kernel{.resources = {.registers_per_thread = 64}};
    const std::vector<Contender> only{{AttentionVariant{}, &kernel}};
    answers = {evaluator.count(problem, only).front().missing_because,
               evaluator.count_accesses(problem, only).front().missing_because,
               evaluator.measure_power(problem, only).front().missing_because};
    EXPECT_THAT(evaluator.race(problem, only, {.rounds = 2}).samples_us.front(), SizeIs(2));
  };
  constexpr int kOne[] = {0};
  run_team(kOne, counting(1), work);
  EXPECT_THAT(answers, ElementsAre("a fake has no counters", "only a GPU counts accesses",
                                   "only a GPU measures energy"));
}

TEST(GpuTeam, EveryPieceIsTunedOnceAndEveryGpuIsCheckedAroundItsPieces) {
  NotedWork work(3);
  run_team(kThree, counting(20), work);
  EXPECT_THAT(work.all_pieces(), SizeIs(20));
  const auto all = work.all_pieces();
  EXPECT_THAT(std::set(all.begin(), all.end()), SizeIs(20));
  for (std::size_t member = 0; member < 3; ++member) {
    EXPECT_EQ(work.checks[member], static_cast<int>(work.pieces[member].size()) + 1);
  }
}

TEST(GpuTeam, AMemberIsToldWhatComesNext) {
  NotedWork work(1);
  work.ahead = 3;
  std::size_t ahead = 0;
  work.at_tune = [&](std::size_t, Evaluator& evaluator, std::size_t) {
    ahead = evaluator.kernels_ahead();
  };
  run_team(std::span(kTwo).first(1), counting(1), work);
  EXPECT_EQ(ahead, 3U);
}

TEST(GpuTeam, ASlowGpuDoesFewerPieces) {
  NotedWork work(2);
  std::mutex mutex;
  std::condition_variable changed;
  int by_the_others = 0;
  std::optional<std::size_t> slow;
  work.at_tune = [&](std::size_t member, Evaluator&, std::size_t) {
    std::unique_lock lock(mutex);
    if (!slow) {
      slow = member;  // Whoever is first needs as long as the other for nine.
      changed.wait(lock, [&] { return by_the_others == 9; });
    } else if (member != *slow) {
      ++by_the_others;
      changed.notify_all();
    }
  };
  run_team(kTwo, counting(10), work);
  EXPECT_THAT(work.pieces[*slow], SizeIs(1));
  EXPECT_THAT(work.pieces[1 - *slow], SizeIs(9));
}

TEST(GpuTeam, UnequalGpusAreRefusedBeforeAnythingIsTuned) {
  NotedWork work(3);
  work.devices[2].name = "Fictional One MIG 1g.10gb";
  work.devices[2].mig = true;
  constexpr int kGpus[] = {0, 3, 5};
  EXPECT_THAT(failure(kGpus, 4, work),
              AllOf(HasSubstr("GPUs 0 and 5 are not equal"), HasSubstr("MIG 1g.10gb"),
                    HasSubstr("by a run of their own")));
  EXPECT_THAT(work.all_pieces(), IsEmpty());
  EXPECT_THAT(work.checks, Each(0));
}

TEST(GpuTeam, ADifferenceInAnyPropertyIsNamed) {
  const DeviceInfo device = fictional_device();
  EXPECT_EQ(difference(device, device), "");
  DeviceInfo other = device;
  other.sm_count = 9;
  EXPECT_EQ(difference(device, other), "sm_count is 10 and 9");
  other = device;
  other.dram_gb_per_s = 100.5;  // The same device, by results; another card all the same.
  EXPECT_TRUE(same_device(device, other));
  EXPECT_THAT(difference(device, other), HasSubstr("dram_gb_per_s"));
  other = device;
  other.smem_per_cta_bytes = 1;
  EXPECT_THAT(difference(device, other), HasSubstr("smem_per_cta_bytes"));
  other = device;
  other.mig = true;
  EXPECT_EQ(difference(device, other), "mig is false and true");
}

TEST(GpuTeam, OthersDoTheWorkOfAGpuThatIsLost) {
  NotedWork work(3);
  work.fall_off_the_bus = {1};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_lost = false;
  work.at_tune = [&](std::size_t member, Evaluator& evaluator, std::size_t) {
    std::unique_lock lock(mutex);
    if (member == 1) {
      is_lost = true;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return is_lost; });  // It has a piece when it is lost.
    }
    measure(evaluator);
  };
  run_team(kThree, counting(7), work);
  EXPECT_THAT(work.all_pieces(), UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(work.pieces[1], IsEmpty());
  EXPECT_THAT(work.losses, ElementsAre(::testing::Pair(1, HasSubstr("fell off the bus"))));
}

TEST(GpuTeam, APieceThatTwoGpusFailAtEndsTheWork) {
  NotedWork work(3);
  work.fall_off_the_bus = {0, 1, 2};
  work.at_tune = [&](std::size_t, Evaluator& evaluator, std::size_t piece) {
    if (piece == 0) {
      measure(evaluator);
    }
  };
  EXPECT_THAT(failure(kThree, 100, work), HasSubstr("fell off the bus"));
  EXPECT_THAT(work.losses, SizeIs(2));
}

TEST(GpuTeam, TheLossOfTheLastGpuIsAnError) {
  NotedWork work(1);
  work.fall_off_the_bus = {0};
  work.at_tune = [](std::size_t, Evaluator& evaluator, std::size_t) { measure(evaluator); };
  constexpr int kOne[] = {0};
  EXPECT_THAT(failure(kOne, 3, work), HasSubstr("fell off the bus"));
  EXPECT_THAT(work.all_pieces(), IsEmpty());
}

TEST(GpuTeam, AGpuThatCannotBeStartedEndsTheWorkBeforeItBegins) {
  NotedWork work(2);
  work.start_fails_for = 1;
  EXPECT_EQ(failure(kTwo, 3, work), "no context");
  EXPECT_THAT(work.all_pieces(), IsEmpty());
}

TEST(GpuTeam, AnErrorThatIsNoGpusEndsTheWork) {
  NotedWork work(2);
  work.at_tune = [](std::size_t, Evaluator&, std::size_t piece) {
    if (piece == 4) {
      throw Error(ErrorCode::not_writable, "the disk is full");
    }
  };
  EXPECT_EQ(failure(kTwo, 1000000, work), "the disk is full");
  EXPECT_THAT(work.losses, IsEmpty());
  work.at_tune = [](std::size_t, Evaluator&, std::size_t) { throw std::logic_error("a bug"); };
  EXPECT_EQ(failure<std::logic_error>(kTwo, 3, work), "a bug");
}

/// A GPU whose references took so long; 0 is one that failed.
GpuHistory history(int gpu, const std::vector<double>& times_us) {
  GpuHistory history{.gpu = gpu, .card = "0000:0" + std::to_string(gpu) + ":00.0"};
  for (const double time_us : times_us) {
    history.references.push_back({.gpu = gpu,
                                  .tuned = history.references.empty() ? "" : "a problem",
                                  .kernel = "the kernel",
                                  .state = time_us > 0.0 ? ResultState::ok : ResultState::throttled,
                                  .median_us = time_us});
  }
  return history;
}

CompiledKernel some_kernel() { return {.resources = {.registers_per_thread = 64}}; }

std::string printed(const std::vector<GpuHistory>& histories) {
  std::ostringstream out;
  print_gpu_histories(out, histories);
  return out.str();
}

TEST(GpuHistory, ComparesEachGpuToItselfAndToTheFastest) {
  const auto speeds =
      gpu_speeds(std::vector{history(0, {100.0, 102.0, 101.0}),
                             history(1, {110.0, 0.0, 108.0, 112.0}), history(2, {0.0})});
  ASSERT_TRUE(speeds[0] && speeds[1]);
  EXPECT_FALSE(speeds[2]);
  EXPECT_EQ(speeds[0]->first_us, 100.0);
  EXPECT_EQ(speeds[0]->last_us, 101.0);
  EXPECT_EQ(speeds[0]->median_us, 101.0);
  EXPECT_NEAR(speeds[0]->spread, 0.02, 1e-9);
  EXPECT_EQ(speeds[0]->behind, 0.0);
  EXPECT_EQ(speeds[1]->median_us, 110.0);
  EXPECT_NEAR(speeds[1]->spread, 112.0 / 108.0 - 1.0, 1e-9);
  EXPECT_NEAR(speeds[1]->behind, 110.0 / 101.0 - 1.0, 1e-9);
}

TEST(GpuHistory, SteadyEqualGpusGiveATableAndNothingElse) {
  const std::string text = printed({history(0, {100.0, 101.0}), history(1, {101.0, 100.0})});
  EXPECT_THAT(text, AllOf(HasSubstr("0000:01:00.0"), HasSubstr("100.0 us"), HasSubstr("+1.0 %")));
  EXPECT_THAT(text, Not(HasSubstr("drifted")));
  EXPECT_THAT(text, Not(HasSubstr("slower than")));
}

TEST(GpuHistory, DriftAndUnequalCardsAreSaidInSentences) {
  const std::string text =
      printed({history(0, {100.0, 101.0, 100.0}), history(1, {100.0, 100.0, 106.0}),
               history(2, {105.0, 104.0, 105.0})});
  EXPECT_THAT(text, HasSubstr("GPU 1 drifted by 6.0 %"));
  EXPECT_THAT(text, HasSubstr("GPU 2 is 5.0 % slower than the fastest"));
  EXPECT_THAT(text, Not(HasSubstr("GPU 0 drifted")));
  EXPECT_THAT(text, Not(HasSubstr("GPU 2 drifted")));
}

TEST(GpuHistory, ALostGpuIsNamedWithTheReason) {
  GpuHistory lost = history(3, {100.0});
  lost.lost_because = "it fell off the bus";
  EXPECT_THAT(printed({lost}), HasSubstr("GPU 3 was lost: it fell off the bus"));
}

TEST(GpuHistory, TheRecordHoldsEveryReference) {
  const Json record = gpu_histories_record(std::vector{history(2, {100.0, 0.0, 104.0})});
  ASSERT_EQ(record.size(), 1U);
  EXPECT_EQ(record[0].at("gpu"), 2);
  EXPECT_EQ(record[0].at("problems"), 2);
  EXPECT_NEAR(record[0].at("speed").at("spread").get<double>(), 0.04, 1e-9);
  EXPECT_EQ(record[0].at("references").size(), 3U);
  EXPECT_TRUE(record[0].at("references")[1].at("median_us").is_null());
  EXPECT_EQ(record[0].at("references")[2].at("tuned"), "a problem");
}

TEST(GpuHistory, MeasuresTheDefaultVariantOfTheReferenceProblem) {
  test::FakeEvaluator evaluator(test::fictional_device());
  evaluator.script = [](VariantResult& result) {
    Measurement measurement{.median_us = 250.0};
    measurement.after.temperature_c = 61;
    result.outcome = measurement;
  };
  const GpuReference reference =
      measure_reference(evaluator, [](const Variant&) { return some_kernel(); });
  EXPECT_EQ(reference.state, ResultState::ok);
  EXPECT_EQ(reference.median_us, 250.0);
  EXPECT_EQ(reference.condition.temperature_c, 61);
  EXPECT_THAT(reference.kernel, StartsWith(to_string(reference_problem())));
  EXPECT_THAT(reference.kernel, HasSubstr(evaluator.keys.at(0)));
}

TEST(GpuHistory, AReferenceThatDoesNotCompileIsAState) {
  test::FakeEvaluator evaluator(test::fictional_device());
  const GpuReference reference = measure_reference(evaluator, [](const Variant&) -> CompiledKernel {
    throw Error(ErrorCode::compile_failed, "broken on purpose");
  });
  EXPECT_EQ(reference.state, ResultState::compile);
  EXPECT_TRUE(evaluator.keys.empty());
}

using namespace std::chrono_literals;

constexpr int kGpus[] = {0, 2};

/// A clock that moves when told.
class TeamProgressing : public ::testing::Test {
 protected:
  static VariantResult with_state(ResultState state) {
    return VariantResult{.variant = AttentionVariant{}, .state = state};
  }

  std::ostringstream out_;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(TeamProgressing, ShowsAllGpusInOneLine) {
  TeamProgress team(out_, true, kGpus, 5, [this] { return now_; });
  team.member(0).begin("a problem", 3);
  team.member(1).begin("another", 10);
  team.member(0).advance(with_state(ResultState::ok));
  team.member(0).advance(with_state(ResultState::crash));
  team.member(1).known(with_state(ResultState::ok));
  now_ += 10s;
  team.member(1).advance(with_state(ResultState::ok));
  EXPECT_THAT(out_.str(), HasSubstr("GPU 0: a problem\nGPU 2: another\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\r[0/5]  0.30 variants/s  GPU 0 2/3  GPU 2 2/10  1 crash"));
  now_ += 1s;
  team.member(0).end();
  EXPECT_THAT(out_.str(), HasSubstr("[1/5]  0.27 variants/s  GPU 0 -  GPU 2 2/10"));
}

TEST_F(TeamProgressing, WritesTitlesOverTheLineThatIsRedrawn) {
  TeamProgress team(out_, true, kGpus, 2, [this] { return now_; });
  team.member(0).begin("first", 1);
  now_ += 1s;
  team.member(0).advance(with_state(ResultState::ok));
  team.member(1).begin("second", 1);
  EXPECT_THAT(out_.str(), EndsWith("\rGPU 2: second\x1b[K\n"));
}

TEST_F(TeamProgressing, TakesStepsOfSeveralThreads) {
  constexpr int kSteps = 1000;
  TeamProgress team(out_, false, kGpus, 2, [this] { return now_; });
  {
    std::vector<std::jthread> threads;
    for (std::size_t member = 0; member < 2; ++member) {
      threads.emplace_back([&team, member] {
        team.member(member).begin("problem", kSteps);
        for (int i = 0; i < kSteps; ++i) {
          team.member(member).advance(with_state(ResultState::ok));
        }
      });
    }
  }
  now_ += 10s;
  team.member(0).end();
  EXPECT_THAT(out_.str(), HasSubstr("[1/2]  200 variants/s  GPU 0 -  GPU 2 1000/1000\n"));
}

}  // namespace
}  // namespace swr
