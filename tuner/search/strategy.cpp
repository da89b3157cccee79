// SPDX-License-Identifier: MIT
#include "tuner/search/strategy.h"

#include "core/enum_text.h"
#include "core/statistics/statistics.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/search/learned_field.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace swr {

void PredictedTimes::refine(const std::vector<std::size_t>& places) {
  std::vector<std::size_t> unknown = places;
  std::erase_if(unknown, [this](std::size_t place) { return is_known(place); });
  refine_unknown(unknown);
}

void PredictedTimes::make_known(const std::vector<std::size_t>& places) {
  while (!std::ranges::all_of(places, [this](std::size_t place) { return is_known(place); })) {
    refine(places);
  }
}

const std::vector<double>& PredictedTimes::all_us() {
  std::vector<std::size_t> places(at_least_us_.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  make_known(places);
  return at_least_us_;
}

namespace {

using namespace std::string_view_literals;

constexpr std::array kStrategies{"exhaustive"sv, "random"sv, "model"sv, "learned"sv};

/// Goes through a list.
class ListStrategy final : public Strategy {
 public:
  ListStrategy(std::vector<Variant> list, std::size_t max_variants)
      : list_(std::move(list)), max_variants_(max_variants) {}

  std::vector<Variant> propose() override {
    const std::size_t wanted = std::min(max_variants_ - evaluated_, list_.size() - proposed_);
    const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(proposed_);
    proposed_ += wanted;
    return {begin, begin + static_cast<std::ptrdiff_t>(wanted)};
  }

  void tell(const VariantResult& result) override { evaluated_ += reached_device(result) ? 1 : 0; }

  std::size_t planned() const override { return std::min(list_.size(), max_variants_); }

 private:
  std::vector<Variant> list_;
  std::size_t max_variants_;
  std::size_t proposed_ = 0;
  std::size_t evaluated_ = 0;
};

/// The standard library's shuffle and distributions differ between implementations.
void shuffle(std::vector<Variant>& variants, unsigned long long seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = variants.size(); i > 1; --i) {
    std::swap(variants[i - 1], variants[random() % i]);
  }
}

}  // namespace

std::string_view to_string(StrategyKind value) { return enum_text(kStrategies, value); }

StrategyKind parse_strategy(std::string_view text) {
  return parse_enum<StrategyKind>(kStrategies, text, "strategy");
}

bool reached_device(const VariantResult& result) {
  return result.state != ResultState::compile && result.state != ResultState::constraint;
}

std::unique_ptr<Strategy> make_strategy(const SearchOptions& options, std::vector<Variant> space,
                                        const PredictTimes& predict) {
  if (options.strategy == StrategyKind::model) {
    return make_model_strategy(options, std::move(space), predict);
  }
  if (options.strategy == StrategyKind::learned) {
    return make_learning_strategy(options, std::move(space));
  }
  if (options.strategy == StrategyKind::random) {
    shuffle(space, options.seed);
  }
  const std::size_t all = space.size();
  return std::make_unique<ListStrategy>(std::move(space), options.max_variants.value_or(all));
}

namespace {

/// Standard deviation to assume of the logarithms of measured over predicted time, on the average
/// of the space.
constexpr double kModelSpread = 0.15;
/// How many standard deviations a variant is given credit for at the beginning of a search.
constexpr double kOptimism = 2.0;
/// Successes before the search may end: fewer say little of how far the model errs.
constexpr std::size_t kFewestKnown = 16;
/// After so many more of the head it is asked whether the search may end.
constexpr std::size_t kPartOfHead = 8;
/// Budget below which each measurement is waited for.
constexpr std::size_t kOneByOne = 3;

class ModelStrategy final : public Strategy {
 public:
  ModelStrategy(const SearchOptions& options, std::vector<Variant> space,
                std::shared_ptr<PredictedTimes> times)
      : space_(std::move(space)),
        times_(std::move(times)),
        is_proposed_(space_.size(), false),
        results_us_(space_.size()),
        spends_all_(options.spends_all) {
    const std::size_t tenth = std::max<std::size_t>(1, space_.size() / 10);
    planned_ = std::min(options.max_variants.value_or(tenth), space_.size());
    limit_ = options.max_s && !options.max_variants ? space_.size() : planned_;
  }

  std::vector<Variant> propose() override {
    likely_.clear();
    if (evaluated_ >= limit_) {
      return {};
    }
    ResidualField field(space_);
    const std::vector<double> found = found_residuals(field);
    const std::vector<double> residuals = field.expected(found);
    if (!spends_all_ && has_settled(field, residuals, field.scale(found, kModelSpread))) {
      return {};
    }
    const std::size_t count = step(evaluated_);
    const std::vector<Variant> batch = next(field, residuals, evaluated_, count);
    // What would follow if the batch in hand met the expectations: the next one, and of those after
    // it what is known already.
    if (evaluated_ + count < limit_) {
      const std::vector<bool> proposed = is_proposed_;
      likely_ = next(field, residuals, evaluated_ + count, step(evaluated_ + count));
      const std::size_t rest = std::min(left(evaluated_ + count), limit_ - evaluated_ - count);
      const auto later =
          choose(field, residuals, rest - std::min(rest, likely_.size()), Among::known);
      likely_.insert(likely_.end(), later.begin(), later.end());
      is_proposed_ = proposed;
    }
    return batch;
  }

  void tell(const VariantResult& result) override {
    evaluated_ += reached_device(result) ? 1 : 0;
    const auto found = std::ranges::find(space_, result.variant);
    if (found != space_.end() && result.state == ResultState::ok) {
      results_us_[static_cast<std::size_t>(found - space_.begin())] = result.time_us();
      best_us_ = std::min(best_us_, result.time_us());
      ++known_;
    }
  }

  std::vector<Variant> likely_next() override { return likely_; }

  std::size_t planned() const override { return limit_; }

  std::optional<double> expected_gain() const override { return expected_gain_; }

 private:
  /// Whose times may be asked for.
  enum class Among { all, known };

  /// What the plan has left when so many are evaluated; of an open end, a constant share.
  std::size_t left(std::size_t evaluated) const {
    return evaluated < planned_ ? planned_ - evaluated : std::max<std::size_t>(1, planned_ / 4);
  }

  /// What is measured in the order of the model.
  std::size_t head_size() const { return (planned_ + 1) / 2; }

  /// The head in parts, then half of what is left, and the last ones singly.
  std::size_t step(std::size_t evaluated) const {
    const std::size_t rest = left(evaluated);
    std::size_t wanted = rest > kOneByOne ? (rest + 1) / 2 : 1;
    if (rest > kOneByOne && evaluated < head_size()) {
      const std::size_t part = evaluated < kFewestKnown ? kFewestKnown - evaluated : kPartOfHead;
      wanted = std::min(head_size() - evaluated, part);
    }
    return std::min(wanted, limit_ - evaluated);
  }

  /// What follows when so many are evaluated.
  std::vector<Variant> next(ResidualField& field, const std::vector<double>& residuals,
                            std::size_t evaluated, std::size_t count) {
    return evaluated < head_size() ? head(field, count) : choose(field, residuals, count);
  }

  /// True when all that is left may be expected to gain less than a tie. Asks for times as long as
  /// what they do not go below leaves that open.
  bool has_settled(const ResidualField& field, const std::vector<double>& residuals, double scale) {
    constexpr std::size_t kAtOnce = 8;
    if (known_ < kFewestKnown) {
      return false;
    }
    const double best = std::log(best_us_);
    for (;;) {
      double known = 0.0;
      double all = 0.0;
      std::vector<std::pair<double, std::size_t>> unknown;
      for (std::size_t place = 0; place < space_.size(); ++place) {
        if (is_proposed_[place] || !std::isfinite(log_predicted(place))) {
          continue;
        }
        const double gain = expected_improvement(best - log_predicted(place) - residuals[place],
                                                 scale * field.whole_deviation(place));
        all += gain;
        if (times_->is_known(place)) {
          known += gain;
        } else {
          unknown.emplace_back(-gain, place);
        }
      }
      if (all <= kTieThreshold) {
        expected_gain_ = all;
        return true;
      }
      if (known > kTieThreshold || unknown.empty()) {
        return false;
      }
      std::ranges::sort(unknown);
      unknown.resize(std::min(unknown.size(), kAtOnce));
      std::vector<std::size_t> places;
      std::ranges::transform(unknown, std::back_inserter(places),
                             &std::pair<double, std::size_t>::second);
      times_->refine(places);
    }
  }

  /// Logarithms of measured over predicted times; adds those variants to the field.
  std::vector<double> found_residuals(ResidualField& field) {
    std::vector<std::size_t> measured;
    for (std::size_t place = 0; place < space_.size(); ++place) {
      if (results_us_[place] > 0.0) {
        measured.push_back(place);
      }
    }
    times_->make_known(measured);
    std::vector<double> residuals;
    for (const std::size_t place : measured) {
      if (std::isfinite(log_predicted(place))) {
        field.add(place);
        residuals.push_back(std::log(results_us_[place]) - log_predicted(place));
      }
    }
    return residuals;
  }

  /// Or less, where the time is not known; infinite for what the prediction rules out.
  double log_predicted(std::size_t place) const { return std::log(times_->at_least_us()[place]); }

  /// The first of the shortlist: what the model holds for best before anything is measured.
  std::vector<Variant> head(ResidualField& field, std::size_t count) {
    const auto proposed = static_cast<std::size_t>(std::ranges::count(is_proposed_, true));
    std::vector<Variant> chosen;
    for (const std::size_t place : first_of_shortlist(space_, *times_, count + proposed)) {
      if (chosen.size() < count && !is_proposed_[place]) {
        propose(place, field, chosen);
      }
    }
    return chosen;
  }

  /// One after the other the variant that may be fastest: the more is unknown of it, the more
  /// credit it has. Each choice makes similar ones less unknown, so that a batch is diverse.
  std::vector<Variant> choose(ResidualField& field, const std::vector<double>& residuals,
                              std::size_t count, Among among = Among::all) {
    const double credit = kOptimism * kModelSpread * static_cast<double>(left(evaluated_)) /
                          static_cast<double>(std::max(planned_, left(evaluated_)));
    const auto bound = [&](std::size_t place) {
      return log_predicted(place) + residuals[place] - credit * field.deviation(place);
    };
    std::vector<Variant> chosen;
    while (chosen.size() < count) {
      const std::optional<std::size_t> best = lowest(bound, among);
      if (!best) {
        break;
      }
      propose(*best, field, chosen);
    }
    return chosen;
  }

  void propose(std::size_t place, ResidualField& field, std::vector<Variant>& chosen) {
    is_proposed_[place] = true;
    field.add(place);
    chosen.push_back(space_[place]);
  }

  /// The first of the lowest bounds of what was not proposed yet. Times are predicted as long as
  /// one that is not known may be it, the likeliest first.
  std::optional<std::size_t> lowest(const std::function<double(std::size_t)>& bound, Among among) {
    constexpr std::size_t kAtOnce = 8;
    for (;;) {
      std::vector<std::pair<double, std::size_t>> open;
      for (std::size_t place = 0; place < space_.size(); ++place) {
        if (!is_proposed_[place] && (among == Among::all || times_->is_known(place))) {
          open.emplace_back(bound(place), place);
        }
      }
      std::ranges::sort(open);
      std::vector<std::size_t> unknown;
      for (const auto& [bound_of_place, place] : open) {
        if (times_->is_known(place) || unknown.size() == kAtOnce) {
          break;
        }
        unknown.push_back(place);
      }
      if (unknown.empty()) {
        return open.empty() ? std::nullopt : std::optional(open.front().second);
      }
      times_->refine(unknown);
    }
  }

  std::vector<Variant> space_;
  std::shared_ptr<PredictedTimes> times_;
  std::vector<bool> is_proposed_;
  std::vector<double> results_us_;  ///< 0 unless it succeeded.
  std::vector<Variant> likely_;
  double best_us_ = std::numeric_limits<double>::infinity();
  bool spends_all_ = false;
  std::optional<double> expected_gain_;
  std::size_t planned_ = 0;
  std::size_t limit_ = 0;
  std::size_t evaluated_ = 0;
  std::size_t known_ = 0;  ///< Successes.
};

}  // namespace

std::unique_ptr<Strategy> make_model_strategy(const SearchOptions& options,
                                              std::vector<Variant> space,
                                              const PredictTimes& predict) {
  auto times = predict(space);
  return std::make_unique<ModelStrategy>(options, std::move(space), std::move(times));
}

}  // namespace swr
