// SPDX-License-Identifier: MIT
#include "tuner/run/stages.h"
#include <swr/error.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swr {
namespace {

/// Places among the results whose accesses are worth counting: the best, and a few finalists in
/// their order while their launches together take less than beginning a pass over them does.
/// Those that were tried before are left out. Requires: the report is ranked.
std::vector<std::size_t> uncounted_accesses(const TuneReport& report) {
  constexpr std::size_t kMost = 8;
  constexpr double kLaunchesUs = 20e3;
  std::vector<std::size_t> places;
  std::size_t chosen = 0;
  double launches_us = 0.0;
  for (std::size_t place = 0; place < report.results.size() && chosen < kMost; ++place) {
    const VariantResult& result = report.results[place];
    const Measurement* measurement = result.measurement();
    if (measurement == nullptr || result.state != ResultState::ok) {
      continue;
    }
    const bool is_cheap = measurement->sampling == Sampling::finals &&
                          launches_us + measurement->median_us < kLaunchesUs;
    if (&result != report.best() && !is_cheap) {
      continue;
    }
    ++chosen;
    launches_us += measurement->median_us;
    if (!measurement->accesses && measurement->accesses_missing_because.empty()) {
      places.push_back(place);
    }
  }
  return places;
}

/// Whatever fails becomes the reason why nothing is known: what has been decided stands without.
std::vector<AccessReading> try_count_accesses(const TuneReport& report, Evaluator& evaluator,
                                              const KernelSource& kernels,
                                              const std::vector<std::size_t>& places) {
  try {
    std::vector<CompiledKernel> ready;
    std::vector<Contender> contenders;
    ready.reserve(places.size());
    for (const std::size_t place : places) {
      const Variant& variant = report.results[place].variant;
      ready.push_back(kernels(variant));
      contenders.push_back({variant, &ready.back()});
    }
    return evaluator.count_accesses(report.problem, contenders);
  } catch (const Error& error) {
    return {places.size(),
            AccessReading{std::nullopt, std::string("counting failed: ") + error.what()}};
  }
}

}  // namespace

void count_accesses_of_best(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                            Store& store, const RowIds& row_ids) {
  const std::vector<std::size_t> places = uncounted_accesses(report);
  if (places.empty()) {
    return;
  }
  const PhaseTimer timer(report.times.count_s);
  std::vector<AccessReading> readings = try_count_accesses(report, evaluator, kernels, places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    VariantResult& result = report.results[places[i]];
    Measurement& measurement = std::get<Measurement>(result.outcome);
    measurement.accesses = readings[i].accesses;
    measurement.accesses_missing_because = std::move(readings[i].missing_because);
    store.record_accesses(row_ids.at(result.variant), measurement);
  }
}

}  // namespace swr
