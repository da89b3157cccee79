// SPDX-License-Identifier: MIT
#include "tuner/distribute/team_progress.h"

#include <swr/attention_variant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

namespace swr {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr int kGpus[] = {0, 2};

/// A clock that moves when told.
class TeamProgressing : public ::testing::Test {
 protected:
  static VariantResult with_state(ResultState state) {
    VariantResult result{.variant = AttentionVariant{}};
    result.state = state;
    return result;
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
