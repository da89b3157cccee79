// SPDX-License-Identifier: MIT
#include "tuner/search/strategy.h"

#include "tests/support/attention.h"
#include "tests/support/test.h"
#include "tuner/predict/model_ranking.h"
#include <swr/attention_variant.h>

namespace swr {
namespace {

using ::testing::ElementsAreArray;

using TimeOf = std::function<double(const Variant&)>;

/// 4 tiles, 4 stages, 2 orders, 3 kinds of persistence.
std::vector<Variant> some_space() {
  std::vector<Variant> space;
  for (const int tile_m : {64, 128}) {
    for (const int tile_n : {32, 64}) {
      for (const int stages : {1, 2, 3, 4}) {
        for (const Order order : {Order::cyclic, Order::sawtooth}) {
          for (const auto persistence :
               {Persistence::grid, Persistence::persistent, Persistence::pairs}) {
            space.push_back(AttentionVariant{.tile_m = tile_m,
                                             .tile_n = tile_n,
                                             .stages = stages,
                                             .order = order,
                                             .persistence = persistence});
          }
        }
      }
    }
  }
  return space;
}

VariantResult result_of(const Variant& variant, double time_us) {
  return VariantResult{.variant = variant, .outcome = Prediction{.time_us = time_us}};
}

PredictTimes predictor(const TimeOf& time_of) {
  return [time_of](const std::vector<Variant>& variants) {
    std::vector<double> times_us;
    std::ranges::transform(variants, std::back_inserter(times_us), time_of);
    return std::make_shared<PredictedTimes>(std::move(times_us));
  };
}

/// Everything that the search tries, in order, when each variant takes time_of.
std::vector<Variant> tried(Strategy& strategy, const TimeOf& time_of, std::size_t at_most = 10000) {
  std::vector<Variant> all;
  for (auto batch = strategy.propose(); !batch.empty() && all.size() < at_most;
       batch = strategy.propose()) {
    for (const Variant& variant : batch) {
      strategy.tell(result_of(variant, time_of(variant)));
      all.push_back(variant);
    }
  }
  return all;
}

double flat(const Variant& /*variant*/) { return 1.0; }

/// Stages help, sawtooth helps, the larger tile helps.
double truth(const Variant& variant) {
  return 100.0 - attention(variant).tile_m / 8.0 - 3.0 * attention(variant).stages -
         (attention(variant).order == Order::sawtooth ? 5.0 : 0.0);
}

std::vector<Variant> run_search(const SearchOptions& options, const TimeOf& predicted,
                                const TimeOf& measured) {
  const auto strategy = make_strategy(options, some_space(), predictor(predicted));
  return tried(*strategy, measured);
}

double best_of(const std::vector<Variant>& variants, const TimeOf& time_of) {
  double best = std::numeric_limits<double>::infinity();
  for (const Variant& variant : variants) {
    best = std::min(best, time_of(variant));
  }
  return best;
}

TEST(Exhaustive, TriesEveryVariantInTheOrderGiven) {
  EXPECT_THAT(run_search({}, flat, flat), ElementsAreArray(some_space()));
}

TEST(Exhaustive, StopsAtItsBudget) {
  EXPECT_THAT(run_search({.max_variants = 5}, flat, flat), SizeIs(5));
}

TEST(Exhaustive, DoesNotChargeVariantsThatNeverReachTheDevice) {
  const auto strategy = make_strategy({.max_variants = 5}, some_space(), predictor(flat));
  std::size_t count = 0;
  for (auto batch = strategy->propose(); !batch.empty(); batch = strategy->propose()) {
    for (const Variant& variant : batch) {
      VariantResult result = result_of(variant, 1.0);
      result.state = count++ < 3 ? ResultState::constraint : ResultState::ok;
      strategy->tell(result);
    }
  }
  EXPECT_EQ(count, 8U);
}

TEST(Random, TriesEveryVariantOnceInAnOrderThatFollowsFromTheSeed) {
  const auto order_of = [](unsigned long long seed) {
    return run_search({.strategy = StrategyKind::random, .seed = seed}, flat, flat);
  };
  std::vector<Variant> sorted = order_of(1);
  std::ranges::sort(sorted);
  std::vector<Variant> all = some_space();
  std::ranges::sort(all);
  EXPECT_EQ(sorted, all);
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(Model, KeepsItsBudgetAndProposesNothingTwice) {
  for (const std::size_t budget : {1U, 2U, 3U, 8U, 17U, 96U, 500U}) {
    const auto all =
        run_search({.strategy = StrategyKind::model, .max_variants = budget, .spends_all = true},
                   truth, truth);
    EXPECT_EQ(all.size(), std::min(budget, some_space().size()));
    EXPECT_EQ(std::set<Variant>(all.begin(), all.end()).size(), all.size());
  }
}

TEST(Model, PlansATenthOfTheSpaceUnlessToldOtherwise) {
  EXPECT_THAT(run_search({.strategy = StrategyKind::model}, truth, truth), SizeIs(9));
}

TEST(Model, GoesOnUntilItIsStoppedWhenOnlyTimeIsLimited) {
  const SearchOptions options{.strategy = StrategyKind::model, .max_s = 5.0, .spends_all = true};
  EXPECT_THAT(run_search(options, truth, truth), SizeIs(some_space().size()));
}

TEST(Model, FindsTheBestAtOnceWhenTheModelIsRight) {
  const auto all = run_search({.strategy = StrategyKind::model, .max_variants = 4}, truth, truth);
  EXPECT_EQ(best_of(all, truth), best_of(some_space(), truth));
}

TEST(Model, BeginsWithTheShortlist) {
  const std::vector<Variant> space = some_space();
  std::vector<double> predicted_us;
  std::ranges::transform(space, std::back_inserter(predicted_us), truth);
  const std::vector<std::size_t> order = shortlist(space, predicted_us);
  const auto strategy =
      make_strategy({.strategy = StrategyKind::model, .max_variants = 12}, space, predictor(truth));
  const std::vector<Variant> first = strategy->propose();
  ASSERT_EQ(first.size(), 6U);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i], space[order[i]]);
  }
}

/// Known where they are asked for; until then a tenth less is known.
class TimesOnDemand final : public PredictedTimes {
 public:
  explicit TimesOnDemand(std::vector<double> times_us) : times_us_(std::move(times_us)) {
    for (const double time_us : times_us_) {
      at_least_us_.push_back(0.9 * time_us);
      is_known_.push_back(false);
    }
  }

  std::ptrdiff_t known() const { return std::ranges::count(is_known_, true); }

 private:
  void refine_unknown(const std::vector<std::size_t>& places) override {
    for (const std::size_t place : places) {
      at_least_us_[place] = times_us_[place];
      is_known_[place] = true;
    }
  }

  std::vector<double> times_us_;
};

TEST(Model, AsksForNoMoreTimesThanItTakesToChooseAsWithAll) {
  const SearchOptions options{.strategy = StrategyKind::model, .max_variants = 12};
  std::shared_ptr<TimesOnDemand> times;
  const PredictTimes on_demand = [&](const std::vector<Variant>& variants) {
    std::vector<double> times_us;
    std::ranges::transform(variants, std::back_inserter(times_us), truth);
    times = std::make_shared<TimesOnDemand>(std::move(times_us));
    return times;
  };
  // The measured times differ from the predicted ones, so that corrections matter.
  const TimeOf measured = [](const Variant& variant) {
    return truth(variant) + 2.0 * static_cast<int>(attention(variant).persistence);
  };
  const auto strategy = make_strategy(options, some_space(), on_demand);
  EXPECT_THAT(tried(*strategy, measured), ElementsAreArray(run_search(options, truth, measured)));
  EXPECT_LT(times->known(), std::ssize(some_space()));
}

TEST(Model, NamesAllThatMayFollowABatch) {
  const auto strategy = make_strategy({.strategy = StrategyKind::model, .max_variants = 24},
                                      some_space(), predictor(truth));
  EXPECT_THAT(strategy->propose(), SizeIs(12));
  EXPECT_THAT(strategy->likely_next(), SizeIs(12));
}

TEST(Model, BeginsAgainBehindVariantsThatNeverReachTheDevice) {
  const auto strategy = make_strategy({.strategy = StrategyKind::model, .max_variants = 4},
                                      some_space(), predictor(truth));
  std::set<Variant> proposed;
  for (int batch = 0; batch < 3; ++batch) {
    for (const Variant& variant : strategy->propose()) {
      EXPECT_TRUE(proposed.insert(variant).second);
      VariantResult result = result_of(variant, 1.0);
      result.state = ResultState::constraint;
      strategy->tell(result);
    }
  }
  EXPECT_EQ(proposed.size(), 6U);
}

TEST(Model, EndsWhenLessThanATieIsExpectedOfTheRest) {
  const SearchOptions options{.strategy = StrategyKind::model, .max_variants = 96};
  const auto right = make_strategy(options, some_space(), predictor(truth));
  const auto few = tried(*right, truth);
  EXPECT_LT(few.size(), 48U);
  EXPECT_EQ(best_of(few, truth), best_of(some_space(), truth));
  ASSERT_TRUE(right->expected_gain().has_value());
  EXPECT_LT(*right->expected_gain(), 0.005);
  // A model that errs by a tenth either way tells little of what is left.
  const TimeOf erratic = [](const Variant& variant) {
    return truth(variant) * (std::hash<std::string>()(to_key(variant)) % 2 == 0 ? 0.9 : 1.1);
  };
  const auto wrong = make_strategy(options, some_space(), predictor(truth));
  EXPECT_GT(tried(*wrong, erratic).size(), few.size() + 8);
}

TEST(Model, LearnsWhatTheModelHasBackwards) {
  // The model takes sawtooth and many stages for harmful.
  const TimeOf wrong = [](const Variant& variant) {
    return 100.0 - attention(variant).tile_m / 8.0 + 3.0 * attention(variant).stages +
           (attention(variant).order == Order::sawtooth ? 5.0 : 0.0);
  };
  const auto all = run_search({.strategy = StrategyKind::model, .max_variants = 24}, wrong, truth);
  EXPECT_LE(best_of(all, truth), 1.05 * best_of(some_space(), truth));
}

TEST(Model, TriesVariantsLastThatThePredictionRulesOut) {
  const TimeOf half = [](const Variant& variant) {
    return attention(variant).stages < 3 ? truth(variant) : std::numeric_limits<double>::infinity();
  };
  const auto all = run_search({.strategy = StrategyKind::model, .max_variants = 48}, half, truth);
  EXPECT_TRUE(std::ranges::all_of(
      all, [](const Variant& variant) { return attention(variant).stages < 3; }));
}

TEST(Model, EndsWhenEveryVariantFails) {
  const auto strategy = make_strategy({.strategy = StrategyKind::model, .max_variants = 20},
                                      some_space(), predictor(truth));
  std::size_t count = 0;
  for (auto batch = strategy->propose(); !batch.empty(); batch = strategy->propose()) {
    for (const Variant& variant : batch) {
      VariantResult result = result_of(variant, 0.0);
      result.state = ResultState::runtime;
      strategy->tell(result);
      ++count;
    }
  }
  EXPECT_EQ(count, 20U);
}

TEST(Model, RepeatsItself) {
  const SearchOptions options{.strategy = StrategyKind::model, .max_variants = 20};
  EXPECT_EQ(run_search(options, flat, truth), run_search(options, flat, truth));
}

TEST(StrategyNames, AreReadBackAndOthersRefused) {
  for (const auto kind : {StrategyKind::exhaustive, StrategyKind::random, StrategyKind::model}) {
    EXPECT_EQ(parse_strategy(to_string(kind)), kind);
  }
  EXPECT_THROW(parse_strategy("annealing"), Error);
}

/// Evaluates until the search ends; what is near the corner of 128x64, 3 stages is fast.
std::vector<Variant> search_without_prediction(unsigned long long seed, std::size_t budget) {
  const auto strategy = make_strategy(
      {.strategy = StrategyKind::learned, .max_variants = budget, .max_s = {}, .seed = seed},
      some_space(), {});
  std::vector<Variant> tried;
  for (auto batch = strategy->propose(); !batch.empty(); batch = strategy->propose()) {
    for (const Variant& variant : batch) {
      const auto& typed = variant.as<AttentionVariant>();
      VariantResult result = result_of(
          variant, 100.0 * (typed.tile_m == 64 ? 1.5 : 1.0) * (typed.tile_n == 32 ? 1.3 : 1.0) *
                       (1.0 + 0.2 * std::abs(typed.stages - 3)) *
                       (typed.order == Order::cyclic ? 1.1 : 1.0) *
                       (typed.persistence == Persistence::pairs ? 1.0 : 1.2));
      if (typed.stages == 4) {
        result.state = ResultState::runtime;
      }
      strategy->tell(result);
      tried.push_back(variant);
    }
  }
  return tried;
}

TEST(LearnedStrategy, FindsTheBestOf96InTwentyFourAmongFailures) {
  const Variant best = AttentionVariant{.tile_m = 128,
                                        .tile_n = 64,
                                        .stages = 3,
                                        .order = Order::sawtooth,
                                        .persistence = Persistence::pairs};
  for (unsigned long long seed = 1; seed <= 10; ++seed) {
    const std::vector<Variant> tried = search_without_prediction(seed, 24);
    EXPECT_THAT(tried, SizeIs(24));
    EXPECT_THAT(tried, ::testing::Contains(best)) << "seed " << seed;
  }
}

TEST(LearnedStrategy, TriesEveryVariantOnceWhereTheBudgetAllows) {
  const std::vector<Variant> tried = search_without_prediction(1, 1000);
  EXPECT_THAT(tried, SizeIs(some_space().size()));
  EXPECT_EQ(std::set<Variant>(tried.begin(), tried.end()).size(), tried.size());
}

TEST(LearnedStrategy, OneSeedTriesTheSameTwice) {
  EXPECT_EQ(search_without_prediction(5, 40), search_without_prediction(5, 40));
  EXPECT_NE(search_without_prediction(5, 40), search_without_prediction(6, 40));
}

}  // namespace
}  // namespace swr
