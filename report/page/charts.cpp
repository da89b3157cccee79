// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "report/explain/analysis.h"
#include "report/page/page_data.h"
#include "report/report.h"
#include "tuner/run/objective_choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace swr::page {
namespace {

/// The sizes of L2 at which curves are drawn.
std::vector<long long> drawn_capacities(long long l2_bytes) {
  constexpr int kStepsPerOctave = 4;
  constexpr int kOctaves = 8;
  std::vector<long long> capacities;
  for (int step = 0; step <= kStepsPerOctave * kOctaves; ++step) {
    const double octaves = static_cast<double>(step) / kStepsPerOctave - kOctaves + 2;
    capacities.push_back(
        static_cast<long long>(static_cast<double>(l2_bytes) * std::exp2(octaves)));
  }
  return capacities;
}

/// Miss ratio by size of L2 of one schedule, modelled; null where the operation has no such model.
Json curve_json(const ProblemStory& story, const VariantResult& result) {
  const std::vector<long long> capacities = drawn_capacities(story.device.l2_bytes);
  const OperationModel* const model = story.problem.operation().model();
  const auto curve = model == nullptr
                         ? std::nullopt
                         : model->miss_ratio_curve(story.problem, result.variant,
                                                   result.ctas_per_sm, story.profile, capacities);
  if (!curve) {
    return {};
  }
  Json points = Json::array();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    points.push_back({capacities[i], curve->ratios[i]});
  }
  return {{"label", describe(result.variant)},
          {"order", order_json(result.variant)},
          {"compulsory_ratio", curve->compulsory_ratio},
          {"points", std::move(points)}};
}

bool is_legal(const ProblemStory& field, const Variant& variant) {
  return !check_constraints(field.problem, variant, field.device);
}

/// The variant, or one that differs from it in the first choice that makes it legal.
std::optional<Variant> legal_neighbour(const ProblemStory& field, const Variant& variant) {
  if (is_legal(field, variant)) {
    return variant;
  }
  for (const Axis& axis : variant.operation().axes()) {
    if (axis.type != FieldType::choice || &axis == variant.operation().order_axis()) {
      continue;
    }
    for (const std::string_view value : axis.spellings) {
      Variant other = variant;
      axis.set(other, std::string(value));
      if (is_legal(field, other)) {
        return other;
      }
    }
  }
  return std::nullopt;
}

/// The best in both orders, all else equal, whether they were tried or not. Where its launch knows
/// one order only, because a CTA walks its inputs once, they are those of its nearest launch that
/// knows both; the best alone where there is none.
std::vector<Variant> in_both_orders(const ProblemStory& field) {
  const Variant& best = field.best().result().variant;
  Variant sawtooth = best;
  if (!order_of(best)) {
    return {best};
  }
  set_order(sawtooth, Order::sawtooth);
  const auto legal = legal_neighbour(field, sawtooth);
  if (!legal) {
    return {best};
  }
  Variant cyclic = *legal;
  set_order(cyclic, Order::cyclic);
  return {cyclic, *legal};
}

}  // namespace

Json progress_json(const ProblemStory& field) {
  std::map<long long, const VariantStory*> by_id;
  for (const VariantStory& story : field.stories) {
    by_id[(story.screening != nullptr ? story.screening : story.newest)->id] = &story;
  }
  Json points = Json::array();
  long long tried = 0;
  std::optional<double> best_us;
  for (const auto& [id, story] : by_id) {
    ++tried;
    if (story->ok() && (!best_us || story->time_us() < *best_us)) {
      best_us = story->time_us();
      points.push_back({tried, *best_us});
    }
  }
  if (best_us) {
    points.push_back({tried, *best_us});
  }
  return points;
}

Json tiles_json(const ProblemStory& field) {
  std::map<std::string, double> best_us;
  for (const VariantStory& story : field.stories) {
    if (story.ok()) {
      const Variant& variant = story.result().variant;
      const std::string tile =
          tile_text(variant) + (family_of(variant) == Family::hopper ? " hopper" : "");
      const auto [entry, is_new] = best_us.try_emplace(tile, story.time_us());
      entry->second = std::min(entry->second, story.time_us());
    }
  }
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& [tile, time_us] : best_us) {
    ranked.emplace_back(time_us, tile);
  }
  std::ranges::sort(ranked);
  Json tiles = Json::array();
  for (const auto& [time_us, tile] : ranked) {
    tiles.push_back(
        {{"tile", tile}, {"time_us", time_us}, {"loss", time_us / ranked.front().first - 1.0}});
  }
  return tiles;
}

Json front_json(const ProblemStory& field) {
  std::vector<std::size_t> ranks;
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < field.stories.size(); ++i) {
    const VariantStory& story = field.stories[i];
    const Measurement* const measurement = story.result().measurement();
    if (story.ok() && measurement != nullptr && measurement->energy) {
      ranks.push_back(i + 1);
      points.emplace_back(story.time_us(), measurement->energy->mean_mj());
    }
  }
  if (points.empty()) {
    return {};
  }
  Json front = Json::array();
  for (const std::size_t place : pareto_front(points)) {
    front.push_back(ranks[place]);
  }
  return front;
}

Json curves_json(const ProblemStory& field) {
  Json curves = Json::array();
  if (field.best().result().ctas_per_sm < 1) {
    return curves;
  }
  for (const Variant& variant : in_both_orders(field)) {
    VariantResult result = field.best().result();
    result.variant = variant;
    Json curve = curve_json(field, result);
    if (curve.is_null()) {
      return Json::array();
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

Json unit_use_json(const ProblemStory& field) {
  Json use = Json::array();
  for (const UnitUse& unit : unit_use(field.problem, field.best().result(), field.profile)) {
    use.push_back({{"unit", unit.unit}, {"share", unit.share}});
  }
  return use;
}

Json roofline_json(const ProblemStory& field) {
  const auto roof = roofline(field.problem, field.best().result(), field.profile);
  if (!roof) {
    return {};
  }
  return {{"tflop_per_s", roof->tflop_per_s},
          {"algorithmic_intensity", roof->algorithmic_intensity},
          {"observed_intensity", or_null(roof->observed_intensity)},
          {"vertical_gap", roof->vertical_gap()},
          {"horizontal_gap", or_null(roof->horizontal_gap())}};
}

}  // namespace swr::page
