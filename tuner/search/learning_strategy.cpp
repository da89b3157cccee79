// SPDX-License-Identifier: MIT
#include "core/statistics/statistics.h"
#include "tuner/search/learned_field.h"
#include "tuner/search/strategy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <utility>

namespace swr {
namespace {

/// Variants spread over the space before anything is learned.
constexpr std::size_t kFirst = 8;
/// Of so many evaluations one more is chosen at a time, up to the largest batch.
constexpr std::size_t kBatchShare = 32;
constexpr std::size_t kLargestBatch = 8;
/// Most variants looked at for a choice, and how many of the best they lie around: they differ from
/// one of these on so many axes at most.
constexpr std::size_t kCandidates = 2048;
constexpr std::size_t kElite = 8;
constexpr std::size_t kNear = 2;
/// Times that the field holds at most when it is built anew, and those it learns from.
constexpr std::size_t kHeld = 256;
constexpr std::size_t kLearnedFrom = 96;
/// After so many more evaluations it is built anew, from other candidates.
constexpr std::size_t kRenew = 48;

class LearningStrategy final : public Strategy {
 public:
  LearningStrategy(const SearchOptions& options, std::vector<Variant> space)
      : space_(std::move(space)),
        places_(space_),
        field_(places_),
        is_proposed_(space_.size(), false),
        random_(options.seed) {
    for (std::size_t place = 0; place < space_.size(); ++place) {
      place_of_.emplace(space_[place], place);
    }
    const std::size_t tenth = std::max<std::size_t>(1, space_.size() / 10);
    planned_ = std::min(options.max_variants.value_or(tenth), space_.size());
    limit_ = options.max_s && !options.max_variants ? space_.size() : planned_;
  }

  std::vector<Variant> propose() override {
    if (evaluated_ >= limit_) {
      return {};
    }
    const std::size_t wanted = std::min(batch_size(), limit_ - evaluated_);
    prepare();
    std::vector<Variant> chosen;
    while (chosen.size() < wanted) {
      const std::size_t candidate = best_candidate();
      if (candidate == candidates_.size()) {
        break;
      }
      const std::size_t place = candidates_[candidate];
      is_proposed_[place] = true;
      chosen.push_back(space_[place]);
      if (chosen.size() < wanted) {
        field_.believe(candidate);
      }
    }
    return chosen;
  }

  void tell(const VariantResult& result) override {
    evaluated_ += reached_device(result) ? 1 : 0;
    const auto found = place_of_.find(result.variant);
    if (found == place_of_.end()) {
      return;
    }
    is_proposed_[found->second] = true;
    told_.push_back(
        {found->second, result.state == ResultState::ok ? std::log(result.time_us()) : kFailed});
  }

  std::size_t planned() const override { return limit_; }

 private:
  static constexpr double kFailed = std::numeric_limits<double>::infinity();

  std::size_t batch_size() const {
    if (told_.empty()) {
      return kFirst;
    }
    return std::clamp<std::size_t>(told_.size() / kBatchShare, 1, kLargestBatch);
  }

  /// What was told, failures as the slowest success.
  std::vector<KnownTime> known_times() const {
    double slowest = -kFailed;
    for (const KnownTime& time : told_) {
      slowest = time.log_time < kFailed ? std::max(slowest, time.log_time) : slowest;
    }
    std::vector<KnownTime> known = told_;
    for (KnownTime& time : known) {
      time.log_time = slowest > -kFailed ? std::min(time.log_time, slowest) : 0.0;
    }
    return known;
  }

  /// The best and a random choice of the others.
  std::vector<KnownTime> selection(std::vector<KnownTime> known, std::size_t most) {
    if (known.size() <= most) {
      return known;
    }
    std::ranges::sort(known, {}, &KnownTime::log_time);
    const std::size_t best = most * 2 / 3;
    for (std::size_t i = best; i < most; ++i) {
      std::swap(known[i], known[i + random_() % (known.size() - i)]);
    }
    known.resize(most);
    return known;
  }

  /// Brings the field and the candidates to what is known.
  void prepare() {
    const std::vector<KnownTime> known = known_times();
    best_log_time_ =
        known.empty() ? 0.0 : std::ranges::min(known, {}, &KnownTime::log_time).log_time;
    const bool learns = known.size() >= learn_at_ &&
                        std::ranges::max(known, {}, &KnownTime::log_time).log_time > best_log_time_;
    if (learns) {
      field_.learn(selection(known, kLearnedFrom));
      learn_at_ = known.size() * 3 / 2;
    }
    if (learns || known.size() >= renew_at_ || candidates_.empty()) {
      candidates_ = choose_candidates(known);
      field_.look_at(selection(known, kHeld), candidates_);
      renew_at_ = known.size() + kRenew;
    } else {
      field_.forget_beliefs();
      for (std::size_t i = taken_; i < known.size(); ++i) {
        field_.add(known[i]);
      }
    }
    taken_ = known.size();
  }

  std::vector<std::size_t> choose_candidates(const std::vector<KnownTime>& known) {
    std::vector<std::size_t> open;
    for (std::size_t place = 0; place < space_.size(); ++place) {
      if (!is_proposed_[place]) {
        open.push_back(place);
      }
    }
    if (open.size() <= kCandidates) {
      return open;
    }
    std::vector<KnownTime> best = known;
    const std::size_t elite = std::min(kElite, best.size());
    std::ranges::partial_sort(best, best.begin() + static_cast<std::ptrdiff_t>(elite), {},
                              &KnownTime::log_time);
    best.resize(elite);
    const auto is_far = [&](std::size_t place) {
      return std::ranges::none_of(best, [&](const KnownTime& time) {
        return places_.differences(time.place, place) <= kNear;
      });
    };
    // The standard library's shuffle differs between implementations.
    for (std::size_t i = open.size(); i > 1; --i) {
      std::swap(open[i - 1], open[random_() % i]);
    }
    const auto near_end =
        std::ranges::stable_partition(open, [&](std::size_t p) { return !is_far(p); }).begin();
    const auto near = static_cast<std::size_t>(near_end - open.begin());
    // At least half of them are from anywhere.
    const std::size_t kept = std::min(near, kCandidates / 2);
    std::vector<std::size_t> candidates(open.begin(),
                                        open.begin() + static_cast<std::ptrdiff_t>(kept));
    const std::size_t rest = std::min(kCandidates - kept, open.size() - near);
    candidates.insert(candidates.end(), near_end, near_end + static_cast<std::ptrdiff_t>(rest));
    return candidates;
  }

  /// By its index; the number of candidates when none is left.
  std::size_t best_candidate() {
    if (told_.empty() && std::ranges::none_of(is_proposed_, std::identity{})) {
      return candidates_.empty() ? 0 : random_() % candidates_.size();
    }
    std::size_t best = candidates_.size();
    double highest = -1.0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (is_proposed_[candidates_[i]]) {
        continue;
      }
      const double value = told_.empty() ? field_.deviation(i)
                                         : expected_improvement(best_log_time_ - field_.expected(i),
                                                                field_.deviation(i));
      if (value > highest) {
        highest = value;
        best = i;
      }
    }
    return best;
  }

  std::vector<Variant> space_;
  AxisPlaces places_;
  LearnedField field_;
  std::map<Variant, std::size_t> place_of_;
  std::vector<bool> is_proposed_;
  std::mt19937_64 random_;
  std::vector<KnownTime> told_;  ///< In the order told; infinite for failures.
  std::vector<std::size_t> candidates_;
  double best_log_time_ = 0.0;
  std::size_t learn_at_ = kFirst;  ///< How many must be known.
  std::size_t renew_at_ = 0;
  std::size_t taken_ = 0;  ///< How many of those told the field has taken note of.
  std::size_t planned_ = 0;
  std::size_t limit_ = 0;
  std::size_t evaluated_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_learning_strategy(const SearchOptions& options,
                                                 std::vector<Variant> space) {
  return std::make_unique<LearningStrategy>(options, std::move(space));
}

}  // namespace swr
