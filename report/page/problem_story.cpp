// SPDX-License-Identifier: MIT
#include "report/page/problem_story.h"

#include "core/operation.h"
#include "db/problem_key.h"
#include "model/prediction_error.h"

#include <tuple>
#include <variant>

namespace swr::page {
namespace {

/// By id.
using Runs = std::map<long long, const RecordedRun*>;

/// What results have in common that may be compared.
struct FieldKey {
  Provenance provenance = Provenance::measured;
  std::string l2_state;  ///< Empty for predictions.
  std::string overlay_digest;

  auto operator<=>(const FieldKey&) const = default;
};

/// A failure has no state of L2 of its own: it has that of its run.
FieldKey key_of(const RecordedResult& recorded, const Runs& runs) {
  FieldKey key{.provenance = recorded.result.provenance(), .l2_state = "", .overlay_digest = ""};
  const auto run = runs.find(recorded.run_id);
  if (run != runs.end()) {
    key.overlay_digest = run->second->info.overlay_digest;
  }
  if (const Measurement* measurement = recorded.result.measurement()) {
    const bool failed = recorded.result.state != ResultState::ok;
    key.l2_state = failed && run != runs.end() ? run->second->info.l2_state
                                               : std::string(to_string(measurement->l2_state));
  }
  return key;
}

/// Gathers the rows of a place into one of its fields.
class FieldBuilder {
 public:
  FieldBuilder(const RecordedPlace& place, FieldKey key) : place_(place), key_(std::move(key)) {}

  void add(const RecordedResult& recorded) {
    VariantStory& story = stories_[recorded.result.variant];
    story.newest = &recorded;  // Rows come oldest first.
    if (!is_final(recorded.result)) {
      story.screening = &recorded;
    }
    by_id_[recorded.id] = recorded.result.variant;
    run_ids_.insert(recorded.run_id);
  }

  ProblemStory build(const std::set<long long>& winners) {
    ProblemStory field{.problem = place_.problem,
                       .device = place_.device,
                       .profile = profile_for_device(place_.device),
                       .provenance = key_.provenance,
                       .l2_state = key_.l2_state,
                       .overlay_digest = key_.overlay_digest,
                       .run_ids = run_ids_,
                       .stories = {},
                       .decision = nullptr,
                       .peers = place_.peers,
                       .results = static_cast<long long>(by_id_.size())};
    add_decision(field);
    const std::optional<Variant> best = best_variant(field, winners);
    for (const auto& [variant, story] : stories_) {
      field.stories.push_back(story);
    }
    std::ranges::stable_sort(field.stories, {}, [&](const VariantStory& story) {
      const bool is_best = best && story.result().variant == *best;
      const double ratio = story.finalist != nullptr ? story.finalist->ratio : 0.0;
      return std::tuple(!story.ok(), !is_best, story.finalist == nullptr, ratio, story.time_us());
    });
    return field;
  }

 private:
  /// The newest decision whose winner is of this field.
  void add_decision(ProblemStory& field) {
    for (const RecordedDecision& decision : place_.decisions) {
      if (!by_id_.contains(decision.winner_id)) {
        continue;
      }
      if (decision.objective == kTimeObjective) {
        field.decision = &decision;
      } else {
        field.winners_by[decision.objective] = by_id_.at(decision.winner_id);
      }
    }
    // A predicted choice is a decision without rounds.
    if (field.decision == nullptr || field.provenance == Provenance::predicted) {
      return;
    }
    for (const RecordedFinalist& finalist : field.decision->finalists) {
      if (const auto variant = by_id_.find(finalist.result_id); variant != by_id_.end()) {
        stories_[variant->second].finalist = &finalist;
      }
    }
  }

  /// What a query answers where this field answers; else the winner of its finals; else the best
  /// by time.
  std::optional<Variant> best_variant(const ProblemStory& field,
                                      const std::set<long long>& winners) {
    std::optional<Variant> fastest;
    for (const auto& [variant, story] : stories_) {
      if (winners.contains(story.newest->id)) {
        return variant;
      }
      const bool better = story.ok() && (!fastest || is_better(place_.problem, story.result(),
                                                               stories_[*fastest].result()));
      fastest = better ? variant : fastest;
    }
    const bool decided =
        field.decision != nullptr && stories_[by_id_.at(field.decision->winner_id)].ok();
    return decided ? by_id_.at(field.decision->winner_id) : fastest;
  }

  const RecordedPlace& place_;
  FieldKey key_;
  std::map<Variant, VariantStory> stories_;
  std::map<long long, Variant> by_id_;
  std::set<long long> run_ids_;
};

}  // namespace

bool is_final(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr && measurement->sampling == Sampling::finals;
}

double error_of_best(const ProblemStory& field) {
  return prediction_error(field.problem, field.best().result(), field.profile);
}

Json axis_json(const Variant& variant, std::string_view name) {
  const Axis* const axis = find_axis(variant.operation(), name);
  return axis == nullptr
             ? Json()
             : std::visit([](const auto& value) { return Json(value); }, axis->get(variant));
}

Json order_json(const Variant& variant) {
  const auto order = order_of(variant);
  return order ? Json(std::string(to_string(*order))) : Json();
}

std::vector<ProblemStory> fields_of(const History& history, const std::set<long long>& winners) {
  Runs runs;
  for (const RecordedRun& run : history.runs) {
    runs[run.id] = &run;
  }
  std::vector<ProblemStory> fields;
  for (const RecordedPlace& place : history.places) {
    std::map<FieldKey, FieldBuilder> builders;
    for (const RecordedResult& recorded : place.results) {
      const FieldKey key = key_of(recorded, runs);
      builders.try_emplace(key, place, key).first->second.add(recorded);
    }
    for (auto& [key, builder] : builders) {
      fields.push_back(builder.build(winners));
    }
  }
  return fields;
}

}  // namespace swr::page
