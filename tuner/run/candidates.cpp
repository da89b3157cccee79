// SPDX-License-Identifier: MIT
#include "tuner/predict/model_ranking.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/stages.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace swr {
namespace {

std::string nothing_left_message(const Problem& problem, const DeviceInfo& device,
                                 const SearchSpace& space) {
  const auto counts = dropped_by_constraint(space.dropped, space.left_out);
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string message = "no variant of " + to_string(problem) + " can run on " + device.name;
  if (most == counts.end()) {
    return message + ": the axes leave none; give every axis at least one value";
  }
  const auto example = std::ranges::find(space.dropped, most->first, &DroppedVariant::constraint);
  // A share: counts of large spaces stand for more.
  const double all = std::accumulate(
      counts.begin(), counts.end(), 0.0,
      [](double sum, const auto& count) { return sum + static_cast<double>(count.second); });
  const auto percent = static_cast<int>(100.0 * static_cast<double>(most->second) / all);
  return message + ": constraint " + most->first + " drops " + std::to_string(percent) + " %" +
         (example == space.dropped.end() ? "" : " (" + example->reason + ")") +
         "; choose other tiles or axis values";
}

/// As many as a screen shows beside what follows.
std::vector<RankedGuess> first_ranked(const std::vector<Variant>& space, PredictedTimes& times) {
  constexpr std::size_t kShown = 5;
  std::vector<RankedGuess> first;
  for (const std::size_t place : first_of_shortlist(space, times, kShown)) {
    const double time_us = times.at_least_us()[place];
    if (std::isfinite(time_us)) {
      first.push_back({space[place], time_us});
    }
  }
  return first;
}

}  // namespace

std::vector<Variant> candidates(TuneReport& report, const TuneOptions& options) {
  const PhaseTimer timer(report.times.enumerate_s);
  if (options.variants) {
    return *options.variants;
  }
  SearchSpace space = require_variants(report.problem, report.device, options.space);
  report.dropped = std::move(space.dropped);
  report.left_out = std::move(space.left_out);
  return std::move(space.variants);
}

std::unique_ptr<Strategy> choose_strategy(TuneReport& report, const TuneOptions& options,
                                          std::vector<Variant> variants, Progress& progress) {
  const PhaseTimer timer(report.times.search_s);
  if (options.search.strategy == StrategyKind::model) {
    progress.phase("predicting " + std::to_string(variants.size()) +
                   " variants to choose what to try first");
  }
  const auto predict =
      model_predictor(report.problem, report.device, thread_count(options.compile_threads));
  return make_strategy(options.search, std::move(variants), [&](const std::vector<Variant>& space) {
    auto times = predict(space);
    report.ranking = first_ranked(space, *times);
    progress.ranked(report.ranking);
    return times;
  });
}

std::vector<Variant> choose_rivals(const TuneReport& report, const TuneOptions& options,
                                   const std::vector<Variant>& space) {
  std::vector<Variant> rivals;
  const Variant usual = default_variant(report.problem, report.device);
  if (options.finals && report.provenance == Provenance::measured &&
      std::ranges::find(space, usual) != space.end()) {
    rivals.push_back(usual);
  }
  for (const Variant& rival : options.rivals) {
    if (std::ranges::find(rivals, rival) == rivals.end()) {
      rivals.push_back(rival);
    }
  }
  rivals.resize(std::min(rivals.size(), options.search.max_variants.value_or(rivals.size())));
  return rivals;
}

std::map<std::string, long long> dropped_by_constraint(const std::vector<DroppedVariant>& dropped,
                                                       std::map<std::string, long long> left_out) {
  for (const DroppedVariant& candidate : dropped) {
    ++left_out[candidate.constraint];
  }
  return left_out;
}

std::vector<std::vector<Variant>> group_by_kernel(const std::vector<Variant>& variants) {
  std::vector<std::vector<Variant>> groups;
  std::map<Variant, std::size_t> group_of;
  for (const Variant& variant : variants) {
    const auto [position, is_new] = group_of.try_emplace(kernel_of(variant), groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[position->second].push_back(variant);
  }
  return groups;
}

SearchSpace require_variants(const Problem& problem, const DeviceInfo& device,
                             const SpaceOptions& options) {
  SearchSpace space = enumerate_space(problem, device, options);
  if (space.variants.empty()) {
    throw Error(ErrorCode::invalid_argument, nothing_left_message(problem, device, space));
  }
  return space;
}

}  // namespace swr
