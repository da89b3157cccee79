// SPDX-License-Identifier: MIT
#include "tuner/search/model_strategy.h"

#include "tuner/search/residual_field.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace swr {
namespace {

using Arm = std::tuple<int, int, int>;

Arm arm_of(const Variant& variant) { return {variant.tile_m, variant.tile_n, variant.warps}; }

struct Candidate {
  Variant variant;
  double predicted_us = 0.0;
  /// Predicted, corrected by what is known of similar variants.
  double expected_us = 0.0;
  bool proposed = false;
  /// 0 unless it succeeded.
  double measured_us = 0.0;
};

/// True when the variants differ in the tile, or else on one axis alone. A change of swizzle brings
/// its section size along.
bool are_neighbours(const Variant& a, const Variant& b) {
  int steps = arm_of(a) == arm_of(b) ? 0 : 1;
  for (const Axis& axis : axes()) {
    const bool counted_elsewhere = axis.name == "tile_m" || axis.name == "tile_n" ||
                                   axis.name == "warps" ||
                                   (axis.name == "section_heads" && a.swizzle != b.swizzle);
    steps += counted_elsewhere || axis.get(a) == axis.get(b) ? 0 : 1;
  }
  return steps == 1;
}

class ModelStrategy final : public Strategy {
 public:
  ModelStrategy(const SearchOptions& options, const std::vector<Variant>& space,
                const std::vector<double>& predicted_us) {
    for (std::size_t i = 0; i < space.size(); ++i) {
      candidates_.push_back(
          {.variant = space[i], .predicted_us = predicted_us[i], .expected_us = predicted_us[i]});
      arms_.insert(arm_of(space[i]));
    }
    const std::size_t tenth = std::max<std::size_t>(1, space.size() / 10);
    planned_ = std::min(options.max_variants.value_or(tenth), space.size());
    limit_ = options.max_s && !options.max_variants ? space.size() : planned_;
    rounds_left_ = planned_ - planned_ / 4;
  }

  std::vector<Variant> propose() override {
    if (evaluated_ >= limit_) {
      return {};
    }
    correct();
    std::vector<Candidate*> chosen = rounds_left_ > 0 ? next_round() : next_neighbours();
    if (chosen.empty()) {
      chosen = best_of(untried(), step());
    }
    std::vector<Variant> variants;
    for (Candidate* candidate : chosen) {
      candidate->proposed = true;
      variants.push_back(candidate->variant);
    }
    return variants;
  }

  void tell(const VariantResult& result) override {
    const auto found = std::ranges::find(candidates_, result.variant, &Candidate::variant);
    evaluated_ += reached_device(result) ? 1 : 0;
    if (found != candidates_.end() && result.state == ResultState::ok) {
      found->measured_us = result.time_us();
    }
  }

  /// As many as the batch in hand has, by what is known before it.
  std::vector<Variant> likely_next() override {
    std::vector<Variant> variants;
    for (const Candidate* candidate : best_of(untried(), step())) {
      variants.push_back(candidate->variant);
    }
    return variants;
  }

  std::size_t planned() const override { return limit_; }

 private:
  /// Half of what is left of the plan; of an open end, a constant share of the plan.
  std::size_t step() const {
    const std::size_t left =
        evaluated_ < planned_ ? planned_ - evaluated_ : std::max<std::size_t>(1, planned_ / 4);
    return std::min((left + 1) / 2, limit_ - evaluated_);
  }

  void correct() {
    std::vector<Variant> known;
    std::vector<double> residuals;
    for (const Candidate& candidate : candidates_) {
      if (candidate.measured_us > 0.0 && std::isfinite(candidate.predicted_us)) {
        known.push_back(candidate.variant);
        residuals.push_back(std::log(candidate.measured_us / candidate.predicted_us));
      }
    }
    const ResidualField field(std::move(known), residuals);
    for (Candidate& candidate : candidates_) {
      if (!candidate.proposed) {
        candidate.expected_us = candidate.predicted_us * std::exp(field.at(candidate.variant));
      }
    }
  }

  /// What is left; while there are others, without variants that the prediction rules out.
  std::vector<Candidate*> untried() {
    std::vector<Candidate*> possible;
    std::vector<Candidate*> ruled_out;
    for (Candidate& candidate : candidates_) {
      if (!candidate.proposed) {
        (std::isfinite(candidate.predicted_us) ? possible : ruled_out).push_back(&candidate);
      }
    }
    return possible.empty() ? ruled_out : possible;
  }

  static std::vector<Candidate*> best_of(std::vector<Candidate*> from, std::size_t count) {
    std::ranges::stable_sort(from, {}, &Candidate::expected_us);
    from.resize(std::min(from.size(), count));
    return from;
  }

  /// Keeps the better half of the tiles that were tried; before that, all.
  void drop_slow_arms() {
    std::map<Arm, double> best_us;
    for (const Candidate& candidate : candidates_) {
      if (candidate.measured_us > 0.0 && arms_.contains(arm_of(candidate.variant))) {
        const auto [slot, is_new] =
            best_us.try_emplace(arm_of(candidate.variant), candidate.measured_us);
        slot->second = std::min(slot->second, candidate.measured_us);
      }
    }
    if (best_us.empty()) {
      return;
    }
    std::vector<std::pair<double, Arm>> order;
    for (const auto& [arm, time_us] : best_us) {
      order.emplace_back(time_us, arm);
    }
    std::ranges::sort(order);
    order.resize((order.size() + 1) / 2);
    arms_.clear();
    for (const auto& [time_us, arm] : order) {
      arms_.insert(arm);
    }
  }

  /// Half of what the rounds have left, dealt over the tiles that remain: the best of each, then
  /// the second best of each.
  std::vector<Candidate*> next_round() {
    drop_slow_arms();
    std::map<Arm, std::size_t> taken;
    std::vector<std::pair<std::size_t, Candidate*>> dealt;
    for (Candidate* candidate : best_of(untried(), candidates_.size())) {
      const Arm arm = arm_of(candidate->variant);
      if (arms_.contains(arm)) {
        dealt.emplace_back(taken[arm]++, candidate);
      }
    }
    std::ranges::stable_sort(dealt, {}, &std::pair<std::size_t, Candidate*>::first);
    const std::size_t count = std::min({(rounds_left_ + 1) / 2, dealt.size(), limit_ - evaluated_});
    rounds_left_ = count == 0 ? 0 : rounds_left_ - std::min(rounds_left_, (rounds_left_ + 1) / 2);
    std::vector<Candidate*> chosen;
    for (std::size_t i = 0; i < count; ++i) {
      chosen.push_back(dealt[i].second);
    }
    return chosen;
  }

  std::vector<Candidate*> next_neighbours() {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (candidate.measured_us > 0.0 &&
          (best == nullptr || candidate.measured_us < best->measured_us)) {
        best = &candidate;
      }
    }
    if (best == nullptr) {
      return {};
    }
    std::vector<Candidate*> neighbours = untried();
    std::erase_if(neighbours, [&](const Candidate* candidate) {
      return !are_neighbours(candidate->variant, best->variant);
    });
    return best_of(std::move(neighbours), step());
  }

  std::vector<Candidate> candidates_;
  std::set<Arm> arms_;  ///< Tiles that are still in the race.
  std::size_t planned_ = 0;
  std::size_t limit_ = 0;
  std::size_t rounds_left_ = 0;  ///< Variants that the rounds may still spend.
  std::size_t evaluated_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_model_strategy(const SearchOptions& options,
                                              std::vector<Variant> space,
                                              const PredictTimes& predict) {
  const std::vector<double> predicted_us = predict(space);
  return std::make_unique<ModelStrategy>(options, space, predicted_us);
}

}  // namespace swr
