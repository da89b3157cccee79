// SPDX-License-Identifier: MIT
#include "tuner/study/study_run.h"

#include <swr/constraints.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace swr {
namespace {

/// The variant with the first value that the study gives its swept axis.
Variant without_swept(const Variant& variant, const Experiment& experiment,
                      const StudyPoint& first) {
  Variant shared = variant;
  if (!experiment.swept.empty()) {
    const Axis& axis = *find_axis(op_of(variant), experiment.swept);
    axis.set(axis, shared, axis.get(first.variant));
  }
  return shared;
}

void add(StudyGroup& group, const StudyPoint& point, const std::string& swept) {
  if (group.points.empty()) {
    group.space = space_of(point.variant);
  } else {
    const Axis& axis = *find_axis(op_of(point.variant), swept);
    group.space.restrictions[swept].push_back(axis.get(point.variant));
  }
  group.points.push_back(&point);
}

/// All take part in every round: which is fastest matters no more than how far the others are.
/// 20 samples each, as in source C; two rounds of the largest cube take half a second of the GPU.
FinalsOptions shared_rounds() {
  FinalsOptions options;
  options.drift = std::numeric_limits<double>::max();
  options.rounds_per_race = 4;
  options.first_races = 5;
  options.most_rounds = options.first_races * options.rounds_per_race;
  options.budget_us = 30e6;
  return options;
}

/// Results of a screening alone do not count where points are to meet.
bool is_final(const VariantResult& result, const StudyGroup& group) {
  const Measurement* measurement = result.measurement();
  return !group.meets() || measurement == nullptr || result.state != ResultState::ok ||
         measurement->sampling == Sampling::finals;
}

bool is_known(const StudyGroup& group, StoredPoints& stored) {
  return std::ranges::all_of(group.points, [&](const StudyPoint* point) {
    const auto result = stored.find(*point);
    return result && is_final(*result, group);
  });
}

/// Takes out, and counts, what cannot run.
std::size_t drop_illegal(StudyGroup& group, const DeviceInfo& device) {
  return std::erase_if(group.points, [&](const StudyPoint* point) {
    return check_constraints(point->problem, point->variant, device).has_value();
  });
}

void tune_group(const StudyGroup& group, const StudyTools& tools) {
  TuneOptions options{.space = group.space, .provenance = tools.provenance};
  options.run_id = tools.run_id;
  options.stop_requested = tools.stop_requested;
  if (group.meets()) {
    options.finals = shared_rounds();
  }
  QuietProgress progress;
  tune(group.points.front()->problem, tools.evaluator, tools.generator, tools.store, options,
       progress);
}

}  // namespace

StoredPoints::StoredPoints(const Store& store, DeviceInfo device, Provenance provenance,
                           Setting setting)
    : store_(store),
      device_(std::move(device)),
      provenance_(provenance),
      setting_(std::move(setting)) {}

std::optional<VariantResult> StoredPoints::find(const StudyPoint& point) {
  const auto known = results_.find(point.problem);
  auto& of_problem =
      known != results_.end() ? known->second : results_[point.problem] = read(point.problem);
  const auto result = of_problem.find(point.variant);
  return result != of_problem.end() ? std::optional(result->second) : std::nullopt;
}

StoredPoints::OfProblem StoredPoints::read(const Problem& problem) const {
  OfProblem of_problem;
  for (StoredResult& stored : store_.results(problem, device_, setting_)) {
    if (stored.result.provenance() == provenance_) {
      of_problem.emplace(stored.result.variant, std::move(stored.result));
    }
  }
  return of_problem;
}

std::vector<StudyGroup> study_groups(const Study& study) {
  std::vector<StudyGroup> groups;
  std::set<std::pair<Problem, Variant>> taken;
  for (const Experiment& experiment : study.experiments) {
    std::map<std::pair<Problem, Variant>, std::size_t> group_of;
    for (const StudyPoint& point : experiment.points) {
      if (!taken.emplace(point.problem, point.variant).second) {
        continue;
      }
      const Variant shared = without_swept(point.variant, experiment, experiment.points.front());
      const auto [place, is_new] = group_of.try_emplace({point.problem, shared}, groups.size());
      if (is_new) {
        groups.emplace_back();
      }
      add(groups[place->second], point, experiment.swept);
    }
  }
  // A problem's tensors and what is expected of them are made once for groups that follow each
  // other.
  std::ranges::stable_sort(groups, {},
                           [](const StudyGroup& group) { return group.points.front()->problem; });
  return groups;
}

StudyTally run_study(const Study& study, StoredPoints& stored, const StudyTools& tools) {
  StudyTally tally;
  for (StudyGroup& group : study_groups(study)) {
    tally.illegal += drop_illegal(group, tools.evaluator.device());
    if (group.points.empty()) {
      continue;
    }
    if (tools.stop_requested()) {
      tally.interrupted = true;
      return tally;
    }
    if (!tools.force && is_known(group, stored)) {
      tally.known += group.points.size();
      continue;
    }
    tune_group(group, tools);
    stored.forget(group.points.front()->problem);
    tally.tuned += group.points.size();
    tools.done(group);
  }
  tally.interrupted = tools.stop_requested();
  return tally;
}

}  // namespace swr
