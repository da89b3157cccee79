// SPDX-License-Identifier: MIT
#include "tuner/run/progress.h"

#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace swr {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

/// A clock that moves when told.
class Progressing : public ::testing::Test {
 protected:
  StreamProgress make(bool redraw) {
    return {out_, redraw, [this] { return now_; }};
  }

  static VariantResult predicted(double time_us) {
    VariantResult result{.variant = AttentionVariant{}};
    result.outcome = Prediction{.time_us = time_us};
    return result;
  }

  static VariantResult failed() {
    VariantResult result{.variant = AttentionVariant{}};
    result.state = ResultState::compile;
    return result;
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

}  // namespace
}  // namespace swr
