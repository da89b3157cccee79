// SPDX-License-Identifier: MIT
// What a run shows while it goes on, and kernels that are compiled ahead of it.
#include "tuner/run/progress.h"

#include "tests/support/attention.h"
#include "tests/support/test.h"
#include "tuner/run/compile_queue.h"
#include <swr/attention_variant.h>

#include <latch>

namespace swr {
namespace {
using namespace std::chrono_literals;

/// A clock that moves when told.
class Progressing : public ::testing::Test {
 protected:
  StreamProgress make(bool redraw) {
    return {out_, redraw, [this] { return now_; }};
  }

  static VariantResult predicted(double time_us) {
    return VariantResult{.variant = AttentionVariant{}, .outcome = Prediction{.time_us = time_us}};
  }

  static VariantResult failed() {
    return VariantResult{.variant = AttentionVariant{}, .state = ResultState::compile};
  }

  std::ostringstream out_;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(Progressing, ShowsRateRemainingTimeBestAndFailures) {
  StreamProgress progress = make(true);
  progress.begin("title", 100);
  progress.advance(predicted(2000.0));
  progress.advance(failed());
  progress.advance(predicted(1500.0));
  now_ += 10s;
  progress.advance(predicted(3000.0));
  EXPECT_THAT(out_.str(), StartsWith("title\n"));
  EXPECT_THAT(out_.str(),
              HasSubstr("\r[4/100]  0.40 variants/s  ETA 4:00  best 1.500 ms  1 compile"));
}

TEST_F(Progressing, ShowsTheDevicesIdleShareAndWhatWasKnown) {
  StreamProgress progress = make(true);
  progress.begin("title", 4);
  progress.known(predicted(1000.0));
  now_ += 10s;
  progress.device_idle(2.5);
  progress.advance(predicted(2000.0));
  EXPECT_THAT(out_.str(), HasSubstr("[2/4]  0.10 variants/s  ETA 0:20  best 1.000 ms  idle 25 %  "
                                    "1 known"));
}

TEST_F(Progressing, NeverCountsPastTheTotal) {
  StreamProgress progress = make(true);
  progress.begin("title", 1);
  progress.advance(failed());
  now_ += 1s;
  progress.advance(predicted(1.0));
  EXPECT_THAT(out_.str(), HasSubstr("[2/2]"));
}

TEST_F(Progressing, RedrawsOneLineAtMostTenTimesASecond) {
  StreamProgress progress = make(true);
  progress.begin("title", 3);
  progress.advance(predicted(1.0));
  now_ += 50ms;
  progress.advance(predicted(1.0));
  EXPECT_EQ(out_.str(), "title\n");
  now_ += 50ms;
  progress.advance(predicted(1.0));
  EXPECT_THAT(out_.str(), HasSubstr("\r[3/3]"));
}

TEST_F(Progressing, WritesWholeLinesWithoutEscapesWhereThereIsNoTerminal) {
  StreamProgress progress = make(false);
  progress.begin("title", 2);
  now_ += 6s;
  progress.advance(predicted(1.0));
  progress.advance(predicted(1.0));
  progress.end();
  EXPECT_THAT(out_.str(), Not(HasSubstr("\r")));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
  const std::string text = out_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(Progressing, StartsAfreshForTheNextProblem) {
  StreamProgress progress = make(true);
  progress.begin("first", 1);
  progress.advance(failed());
  progress.end();
  out_.str("");
  progress.begin("second", 7);
  progress.end();
  EXPECT_THAT(out_.str(), HasSubstr("[0/7]"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("compile")));
}

TEST_F(Progressing, TakesTheTimeLeftFromKernelsThatTheCacheDoesNotHave) {
  StreamProgress progress = make(true);
  progress.begin("title", 100);
  for (int i = 0; i < 50; ++i) {
    progress.kernel(true);
    progress.advance(predicted(2000.0));
  }
  for (int i = 0; i < 2; ++i) {
    now_ += 3s;
    progress.kernel(false);
    progress.advance(predicted(2000.0));
  }
  now_ += 100ms;
  progress.tick();
  // 48 are left, at 3 s each; the rate of all would say 0:06.
  EXPECT_THAT(out_.str(), HasSubstr("[52/100]  8.52 variants/s  ETA 2:24"));
}

TEST_F(Progressing, SaysNoTimeLeftWhileTheFirstKernelOutsideTheCacheIsCompiled) {
  StreamProgress progress = make(true);
  progress.begin("title", 100);
  for (int i = 0; i < 50; ++i) {
    progress.kernel(true);
    progress.advance(predicted(2000.0));
  }
  now_ += 5s;
  progress.tick();
  EXPECT_THAT(out_.str(), HasSubstr("[50/100]  10.0 variants/s  compiling"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("ETA")));
}

TEST_F(Progressing, CountsKernelsThatAreThereAheadOfTheirVariants) {
  StreamProgress progress = make(true);
  progress.begin("title", 10);
  for (int i = 0; i < 6; ++i) {
    now_ += 2s;
    progress.kernel(false);
  }
  EXPECT_THAT(out_.str(), HasSubstr("[0/10]  compiling the first kernels, 6 ready"));
  now_ += 1s;
  progress.advance(predicted(2000.0));
  // 9 variants of 1 s, and of their kernels 4 are missing, of 2 s.
  EXPECT_THAT(out_.str(), HasSubstr("[1/10]  0.08 variants/s  ETA 0:17"));
}

TEST_F(Progressing, NamesWhatGoesOnWhileNothingIsEvaluated) {
  StreamProgress progress = make(true);
  progress.phase("predicting 8 variants");
  EXPECT_THAT(out_.str(), HasSubstr("\r...  predicting 8 variants"));
  progress.begin("title", 8);
  now_ += 1s;
  progress.tick();
  EXPECT_THAT(out_.str(), HasSubstr("[0/8]  compiling the first kernels"));
  progress.advance(predicted(1.0));
  progress.phase("counting");
  EXPECT_THAT(out_.str(), HasSubstr("[1/8]  counting  best 1.000 us"));
  progress.phase("");
  now_ += 1s;
  progress.tick();
  EXPECT_THAT(out_.str(), HasSubstr("[1/8]  0.50 variants/s"));
}

TEST_F(Progressing, IsSilentBeforeItBeginsAndAfterItEnds) {
  StreamProgress progress = make(true);
  now_ += 10s;
  progress.tick();
  EXPECT_EQ(out_.str(), "");
  progress.begin("title", 1);
  progress.end();
  out_.str("");
  now_ += 10s;
  progress.tick();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(Progressing, CutsTheLineThatIsRedrawnToTheTerminal) {
  StreamProgress progress{out_, true, [this] { return now_; }, 20};
  progress.begin("title", 100);
  out_.str("");
  progress.phase("a phase with a long name");
  EXPECT_EQ(out_.str(), "\r[0/100]  a phase wi\x1b[K");
}

std::vector<Variant> variants(int count) {
  std::vector<Variant> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    attention(all[static_cast<std::size_t>(i)]).workers = i;
  }
  return all;
}

CompiledKernel kernel_named_after(const Variant& variant) {
  return CompiledKernel{.entry = std::to_string(attention(variant).workers)};
}

TEST(CompileQueue, HandsOutKernelsInTheOrderWantedFromManyThreads) {
  const auto all = variants(200);
  CompileQueue queue(8, kernel_named_after);
  queue.want(all);
  for (const Variant& variant : all) {
    ASSERT_EQ(queue.take(variant).entry, std::to_string(attention(variant).workers));
  }
}

TEST(CompileQueue, CompilesOnSeveralThreadsAtOnce) {
  // Each compilation waits for the other: with one thread this test would never end.
  std::latch both(2);
  const auto all = variants(2);
  CompileQueue queue(2, [&both](const Variant& variant) {
    both.arrive_and_wait();
    return kernel_named_after(variant);
  });
  queue.want(all);
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  EXPECT_EQ(queue.take(all[1]).entry, "1");
}

TEST(CompileQueue, RunsABoundedNumberAhead) {
  std::atomic<int> compiled = 0;
  const auto all = variants(100);
  {
    CompileQueue queue(2, [&compiled](const Variant& variant) {
      ++compiled;
      return kernel_named_after(variant);
    });
    queue.want(all);
    queue.expect(variants(200));
    queue.take(all[0]);
  }
  EXPECT_LE(compiled, 33);
}

TEST(CompileQueue, CompilesWhatIsExpectedBeforeItIsWanted) {
  const auto all = variants(3);
  std::latch expected_done(1);
  std::atomic<int> compiled = 0;
  CompileQueue queue(1, [&](const Variant& variant) {
    if (++compiled == 2) {
      expected_done.count_down();
    }
    return kernel_named_after(variant);
  });
  queue.want(std::span(all).first(1));
  queue.expect({all[2]});
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  expected_done.wait();
  queue.want(std::span(all).last(2));
  EXPECT_EQ(queue.take(all[1]).entry, "1");
  EXPECT_EQ(queue.take(all[2]).entry, "2");
  EXPECT_EQ(compiled, 3);
}

TEST(CompileQueue, AWantedVariantCanBeWantedAgainOnceItWasTaken) {
  const auto all = variants(1);
  CompileQueue queue(2, kernel_named_after);
  for (int i = 0; i < 3; ++i) {
    queue.want(all);
    EXPECT_EQ(queue.take(all[0]).entry, "0");
  }
}

TEST(CompileQueue, ThrowsTheCompilersErrorForThatVariantAlone) {
  const auto all = variants(3);
  CompileQueue queue(2, [](const Variant& variant) {
    if (attention(variant).workers == 1) {
      throw Error(ErrorCode::compile_failed, "bad variant");
    }
    return kernel_named_after(variant);
  });
  queue.want(all);
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  EXPECT_THROW(queue.take(all[1]), Error);
  EXPECT_EQ(queue.take(all[2]).entry, "2");
}

TEST(CompileQueue, EndsWithoutCompilingWhatNobodyAskedFor) {
  const CompileQueue empty(4, kernel_named_after);
  CompileQueue abandoned(4, kernel_named_after);
  abandoned.want(variants(50));
}

TEST(CompileQueue, StopsWaitingWhenAskedTo) {
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  CompileQueue queue(1, [end](const Variant& variant) {
    end.wait();
    return kernel_named_after(variant);
  });
  const std::vector<Variant> wanted{variants(2)};
  queue.want(wanted);
  int asked = 0;
  // The first is being compiled, the second is not begun.
  EXPECT_FALSE(queue.take(wanted[0], [&asked] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  may_end.set_value();
}

TEST(CompileQueue, LeavesAbandonedCompilationsBehind) {
  std::promise<void> may_end;
  std::promise<void> has_begun;
  std::promise<void> has_ended;
  const std::shared_future<void> end = may_end.get_future().share();
  {
    CompileQueue queue(1, [&has_begun, &has_ended, end](const Variant& variant) {
      has_begun.set_value();
      end.wait();
      has_ended.set_value();
      return kernel_named_after(variant);
    });
    queue.want(variants(1));
    has_begun.get_future().wait();
    queue.abandon();
  }  // Would wait for ever.
  may_end.set_value();
  has_ended.get_future().wait();
}

}  // namespace
}  // namespace swr
