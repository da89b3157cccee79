// SPDX-License-Identifier: MIT
#include "experiments/studies/study_run.h"

#include <swr/constraints.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace swr {
namespace {

/// The variant with the first value that the study gives its swept axis, where it sweeps one.
std::optional<Variant> shared_variant(const Variant& variant, const Experiment& experiment) {
  if (experiment.swept.empty()) {
    return std::nullopt;
  }
  const Axis& axis = *find_axis(variant.operation(), experiment.swept);
  Variant shared = variant;
  axis.set(shared, axis.get(experiment.points.front().variant));
  return shared;
}

/// All take part in every round: which is fastest matters no more than how far the others are.
FinalsOptions shared_rounds(const Study& study) {
  FinalsOptions options;
  options.drift = std::numeric_limits<double>::max();
  options.rounds_per_race = 4;
  options.first_races = study.races;
  options.most_rounds = options.first_races * options.rounds_per_race;
  options.budget_us = 30e6;
  return options;
}

/// Results of a screening alone do not count where points are to meet.
bool is_known(const StudyPoint& point, bool meets, StoredPoints& stored) {
  const auto result = stored.find(point);
  const Measurement* measurement = result ? result->measurement() : nullptr;
  const bool is_screened = measurement != nullptr && result->state == ResultState::ok &&
                           measurement->sampling != Sampling::finals;
  return result && !(meets && is_screened);
}

/// Takes out, and counts, what needs no tuning: known points, but none of those that are to meet
/// while one of them is not known.
std::size_t drop_known(StudyGroup& group, StoredPoints& stored) {
  const auto is_known_point = [&](const StudyPoint* point) {
    return is_known(*point, group.meets(), stored);
  };
  if (group.meets() && !std::ranges::all_of(group.points, is_known_point)) {
    return 0;
  }
  return std::erase_if(group.points, is_known_point);
}

/// Takes out, and counts, what cannot run.
std::size_t drop_illegal(StudyGroup& group, const DeviceInfo& device) {
  return std::erase_if(group.points, [&](const StudyPoint* point) {
    return check_constraints(point->problem, point->variant, device).has_value();
  });
}

void tune_group(const Study& study, const StudyGroup& group, const StudyTools& tools) {
  TuneOptions options;
  options.provenance = tools.provenance;
  options.run_id = tools.run_id;
  options.stop_requested = tools.stop_requested;
  options.count_accesses = false;  // Passes of their own for every point.
  options.variants.emplace();
  for (const StudyPoint* point : group.points) {
    options.variants->push_back(point->variant);
  }
  if (group.meets()) {
    options.finals = shared_rounds(study);
  } else {
    options.finals.reset();  // Every point is wanted, not a winner.
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
  // By what the points of a group have in common: those of a sweep also all but the swept axis.
  std::map<std::tuple<Problem, std::string, std::optional<Variant>>, std::size_t> group_of;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyPoint& point : experiment.points) {
      if (!taken.emplace(point.problem, point.variant).second) {
        continue;
      }
      const auto shared = shared_variant(point.variant, experiment);
      const auto [place, is_new] =
          group_of.try_emplace({point.problem, experiment.swept, shared}, groups.size());
      if (is_new) {
        groups.push_back({.points = {}, .is_sweep = !experiment.swept.empty()});
      }
      groups[place->second].points.push_back(&point);
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
    tally.known += tools.force ? 0 : drop_known(group, stored);
    if (group.points.empty()) {
      continue;
    }
    if (tools.stop_requested()) {
      tally.interrupted = true;
      return tally;
    }
    tune_group(study, group, tools);
    stored.forget(group.points.front()->problem);
    tally.tuned += group.points.size();
    tools.done(group);
  }
  tally.interrupted = tools.stop_requested();
  return tally;
}

}  // namespace swr
