// SPDX-License-Identifier: MIT
#include "tuner/predict/model_ranking.h"
#include "tuner/search/residual_field.h"
#include "tuner/search/strategy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace swr {
namespace {

/// Standard deviation to assume of the logarithms of measured over predicted time, on the average
/// of the space.
constexpr double kModelSpread = 0.15;
/// How many standard deviations a variant is given credit for at the beginning of a search.
constexpr double kOptimism = 2.0;
/// Budget below which each measurement is waited for.
constexpr std::size_t kOneByOne = 3;

class ModelStrategy final : public Strategy {
 public:
  ModelStrategy(const SearchOptions& options, std::vector<Variant> space,
                const std::vector<double>& predicted_us)
      : space_(std::move(space)),
        shortlist_(shortlist(space_, predicted_us)),
        is_proposed_(space_.size(), false),
        results_us_(space_.size()) {
    for (const double time_us : predicted_us) {
      log_predicted_.push_back(std::log(time_us));
    }
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
    const std::vector<double> corrected = corrected_predictions(field);
    const std::size_t count = step(evaluated_);
    const std::vector<Variant> batch =
        evaluated_ == 0 ? head(field, count) : choose(field, corrected, count);
    // What would follow if the batch in hand met the expectations.
    if (evaluated_ + count < limit_) {
      const std::vector<bool> proposed = is_proposed_;
      likely_ = choose(field, corrected, step(evaluated_ + count));
      is_proposed_ = proposed;
    }
    return batch;
  }

  void tell(const VariantResult& result) override {
    evaluated_ += reached_device(result) ? 1 : 0;
    const auto found = std::ranges::find(space_, result.variant);
    if (found != space_.end() && result.state == ResultState::ok) {
      results_us_[static_cast<std::size_t>(found - space_.begin())] = result.time_us();
    }
  }

  std::vector<Variant> likely_next() override { return likely_; }

  std::size_t planned() const override { return limit_; }

 private:
  /// What the plan has left when so many are evaluated; of an open end, a constant share.
  std::size_t left(std::size_t evaluated) const {
    return evaluated < planned_ ? planned_ - evaluated : std::max<std::size_t>(1, planned_ / 4);
  }

  /// Half of it, and the last ones singly.
  std::size_t step(std::size_t evaluated) const {
    const std::size_t rest = left(evaluated);
    const std::size_t wanted = rest > kOneByOne ? (rest + 1) / 2 : 1;
    return std::min(wanted, limit_ - evaluated);
  }

  /// Logarithms of the times to expect, by what was measured of similar variants; adds those to
  /// the field.
  std::vector<double> corrected_predictions(ResidualField& field) const {
    std::vector<double> residuals;
    for (std::size_t place = 0; place < space_.size(); ++place) {
      if (results_us_[place] > 0.0 && std::isfinite(log_predicted_[place])) {
        field.add(place);
        residuals.push_back(std::log(results_us_[place]) - log_predicted_[place]);
      }
    }
    std::vector<double> corrected = field.expected(residuals);
    for (std::size_t place = 0; place < space_.size(); ++place) {
      corrected[place] += log_predicted_[place];
    }
    return corrected;
  }

  /// The first of the shortlist: what the model holds for best before anything is measured.
  std::vector<Variant> head(ResidualField& field, std::size_t count) {
    std::vector<Variant> chosen;
    for (const std::size_t place : shortlist_) {
      if (chosen.size() == count) {
        break;
      }
      if (is_proposed_[place]) {
        continue;
      }
      is_proposed_[place] = true;
      field.add(place);
      chosen.push_back(space_[place]);
    }
    return chosen;
  }

  /// One after the other the variant that may be fastest: the more is unknown of it, the more
  /// credit it has. Each choice makes similar ones less unknown, so that a batch is diverse.
  std::vector<Variant> choose(ResidualField& field, const std::vector<double>& corrected,
                              std::size_t count) {
    const double credit = kOptimism * kModelSpread * static_cast<double>(left(evaluated_)) /
                          static_cast<double>(std::max(planned_, left(evaluated_)));
    std::vector<Variant> chosen;
    while (chosen.size() < count) {
      std::size_t best = space_.size();
      double lowest = std::numeric_limits<double>::infinity();
      for (std::size_t place = 0; place < space_.size(); ++place) {
        const double bound = corrected[place] - credit * field.deviation(place);
        if (!is_proposed_[place] && (best == space_.size() || bound < lowest)) {
          best = place;
          lowest = bound;
        }
      }
      if (best == space_.size()) {
        break;
      }
      is_proposed_[best] = true;
      field.add(best);
      chosen.push_back(space_[best]);
    }
    return chosen;
  }

  std::vector<Variant> space_;
  std::vector<std::size_t> shortlist_;
  std::vector<double> log_predicted_;  ///< Infinite for what the prediction rules out.
  std::vector<bool> is_proposed_;
  std::vector<double> results_us_;  ///< 0 unless it succeeded.
  std::vector<Variant> likely_;
  std::size_t planned_ = 0;
  std::size_t limit_ = 0;
  std::size_t evaluated_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_model_strategy(const SearchOptions& options,
                                              std::vector<Variant> space,
                                              const PredictTimes& predict) {
  const std::vector<double> predicted_us = predict(space);
  return std::make_unique<ModelStrategy>(options, std::move(space), predicted_us);
}

}  // namespace swr
