// SPDX-License-Identifier: MIT
#include "tuner/predict/model_ranking.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "tuner/predict/predicting_evaluator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace swr {
namespace {

/// Variants of a space with floors whose schedules are walked to rank it.
constexpr std::size_t kMostWalked = 96;

/// Times by the model of kernels of the resources estimated.
class ModelledTimes final : public PredictedTimes {
 public:
  ModelledTimes(const Problem& problem, const DeviceInfo& device, int threads,
                const std::vector<Variant>& variants)
      : threads_(static_cast<std::size_t>(std::max(1, threads))),
        problem_(problem),
        variants_(variants),
        kernels_(variants.size()),
        is_bounded_(variants.size(), false),
        model_(profile_for_device(device), threads) {
    for (std::size_t place = 0; place < variants.size(); ++place) {
      kernels_[place].resources =
          model_.predictor(problem_).estimated_resources(problem_, variants[place]);
      at_least_us_.push_back(
          model_.bound_us(problem_, variants[place], kernels_[place], BoundBy::sums));
      is_known_.push_back(std::isinf(at_least_us_.back()));
    }
  }

  PredictingEvaluator& model() { return model_; }

  /// Predicts what has no bound: such models walk nothing.
  void predict_unbounded() {
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < variants_.size(); ++place) {
      if (at_least_us_[place] <= 0.0) {
        places.push_back(place);
      }
    }
    predict(places);
  }

 private:
  void refine_unknown(const std::vector<std::size_t>& places) override {
    std::vector<std::size_t> bounded;
    std::vector<std::size_t> unbounded;
    for (const std::size_t place : places) {
      (is_bounded_[place] ? bounded : unbounded).push_back(place);
      is_bounded_[place] = true;
    }
    bound_by_timelines(unbounded);
    predict(bounded);
  }

  /// Most of the work where there are many heads.
  void bound_by_timelines(const std::vector<std::size_t>& places) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < places.size(); i = next++) {
        double& at_least_us = at_least_us_[places[i]];
        at_least_us =
            std::max(at_least_us, model_.bound_us(problem_, variants_[places[i]],
                                                  kernels_[places[i]], BoundBy::timeline));
      }
    };
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads_, places.size()); ++i) {
      others.emplace_back(work);
    }
    work();
  }

  void predict(const std::vector<std::size_t>& places) {
    std::vector<Contender> contenders;
    for (const std::size_t place : places) {
      contenders.push_back({variants_[place], &kernels_[place]});
    }
    model_.expect(problem_, contenders);
    for (const std::size_t place : places) {
      const VariantResult result = model_.evaluate(problem_, variants_[place], kernels_[place]);
      at_least_us_[place] = result.state == ResultState::ok
                                ? result.time_us()
                                : std::numeric_limits<double>::infinity();
      is_known_[place] = true;
    }
  }

  std::size_t threads_;
  Problem problem_;
  std::vector<Variant> variants_;
  std::vector<CompiledKernel> kernels_;  ///< Their resources.
  std::vector<bool> is_bounded_;         ///< By timelines.
  PredictingEvaluator model_;
};

/// Empty where the operation has none.
std::vector<double> floors_us(PredictingEvaluator& model, const Problem& problem,
                              const std::vector<Variant>& variants) {
  std::vector<double> floors;
  for (const Variant& variant : variants) {
    const auto floor_us = model.predictor(problem).floor_us(problem, variant);
    if (!floor_us) {
      return {};
    }
    floors.push_back(*floor_us);
  }
  return floors;
}

/// Places of the lowest floors.
std::vector<std::size_t> lowest(const std::vector<double>& floors_us, std::size_t count) {
  std::vector<std::size_t> places(floors_us.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t place) { return floors_us[place]; });
  places.resize(std::min(count, places.size()));
  return places;
}

/// How much longer than their floors variants take by the model, in the median.
double median_excess(const std::vector<std::size_t>& places, const std::vector<double>& floors_us,
                     const std::vector<double>& predicted_us) {
  std::vector<double> ratios;
  for (const std::size_t place : places) {
    ratios.push_back(predicted_us[place] / floors_us[place]);
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

/// Only what the floors put first is walked. The others keep their floors, raised as much as the
/// walk raised those.
std::vector<double> ranking_by_floors_us(PredictedTimes& times, std::vector<double> floors_us) {
  const std::vector<std::size_t> walked = lowest(floors_us, kMostWalked);
  times.make_known(walked);
  const double excess = median_excess(walked, floors_us, times.at_least_us());
  for (double& time_us : floors_us) {
    time_us *= excess;
  }
  for (const std::size_t place : walked) {
    floors_us[place] = times.at_least_us()[place];
  }
  return floors_us;
}

}  // namespace

PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads) {
  return [problem, device,
          threads](const std::vector<Variant>& variants) -> std::shared_ptr<PredictedTimes> {
    auto times = std::make_shared<ModelledTimes>(problem, device, threads, variants);
    std::vector<double> floors = floors_us(times->model(), problem, variants);
    if (!floors.empty()) {
      return std::make_shared<PredictedTimes>(ranking_by_floors_us(*times, std::move(floors)));
    }
    times->predict_unbounded();
    return times;
  };
}

namespace {

/// The variants without their orders of tiles, and how long the fastest of each takes.
struct Alike {
  std::vector<Variant> plain;
  std::map<Variant, double> fastest_us;

  Alike(std::span<const Variant> variants, std::span<const double> predicted_us) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      plain.push_back(variants[i].operation().without_tile_order(variants[i]));
      const auto entry = fastest_us.try_emplace(plain[i], predicted_us[i]).first;
      entry->second = std::min(entry->second, predicted_us[i]);
    }
  }
};

/// Variants of which a time is no more than this above the fastest cannot be told apart.
constexpr double kIndistinguishable = 0.002;

struct Shortlist {
  std::vector<std::size_t> order;
  std::vector<double> time_us;  ///< By place, those that stand for the predicted ones.
};

Shortlist shortlisted(std::span<const Variant> variants, std::span<const double> predicted_us) {
  constexpr double kTwinHandicap = 1.02;
  const Alike alike(variants, predicted_us);
  const auto fastest_us = [&](std::size_t i) { return alike.fastest_us.at(alike.plain[i]); };
  Shortlist list;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool is_slower = predicted_us[i] > fastest_us(i) * (1 + kIndistinguishable);
    list.time_us.push_back(is_slower ? predicted_us[i] : fastest_us(i));
  }
  list.order.resize(variants.size());
  std::iota(list.order.begin(), list.order.end(), std::size_t{0});
  std::ranges::sort(list.order, [&](std::size_t a, std::size_t b) {
    return std::tie(list.time_us[a], variants[a]) < std::tie(list.time_us[b], variants[b]);
  });
  std::set<Variant> named;
  for (const std::size_t i : list.order) {
    const bool is_named = !named.insert(alike.plain[i]).second;
    list.time_us[i] *= is_named && list.time_us[i] <= fastest_us(i) ? kTwinHandicap : 1.0;
  }
  std::ranges::stable_sort(list.order, {}, [&](std::size_t i) { return list.time_us[i]; });
  return list;
}

/// Places of unknown times that may be `most_us` or less, some of the lowest.
std::vector<std::size_t> most_promising(const PredictedTimes& times, double most_us) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < times.at_least_us().size(); ++place) {
    if (!times.is_known(place) && times.at_least_us()[place] <= most_us) {
      places.push_back(place);
    }
  }
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return times.at_least_us()[i]; });
  places.resize(std::min(places.size(), kAtOnce));
  return places;
}

/// The times that are known, for infinite those that are not.
std::vector<double> known_us(const PredictedTimes& times) {
  std::vector<double> known = times.at_least_us();
  for (std::size_t place = 0; place < known.size(); ++place) {
    known[place] = times.is_known(place) ? known[place] : std::numeric_limits<double>::infinity();
  }
  return known;
}

}  // namespace

std::vector<std::size_t> shortlist(std::span<const Variant> variants,
                                   std::span<const double> predicted_us) {
  return shortlisted(variants, predicted_us).order;
}

// What is left unknown is slower than the last one of the list, and than all that it might be taken
// for equal to.
std::vector<std::size_t> first_of_shortlist(std::span<const Variant> variants,
                                            PredictedTimes& times, std::size_t count) {
  count = std::min(count, variants.size());
  for (;;) {
    Shortlist list = shortlisted(variants, known_us(times));
    const double last_us = count == 0 ? 0.0 : list.time_us[list.order[count - 1]];
    const auto places = most_promising(times, last_us * (1 + kIndistinguishable));
    if (places.empty()) {
      list.order.resize(count);
      return std::move(list.order);
    }
    times.refine(places);
  }
}

}  // namespace swr
