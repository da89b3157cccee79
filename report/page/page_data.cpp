// SPDX-License-Identifier: MIT
#include "report/page/page_data.h"

#include "core/architectures.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "db/match.h"
#include "model/prediction_error.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"
#include "report/explain/metrics.h"
#include "report/report.h"
#include "tuner/run/objective_choice.h"
#include "tuner/study/study.h"
#include <swr/version.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace swr {
namespace {

constexpr double kBytesPerMb = 1e6;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

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

bool is_final(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr && measurement->sampling == Sampling::finals;
}

/// All that is known of one variant in a field.
struct VariantStory {
  const RecordedResult* newest = nullptr;
  const RecordedResult* screening = nullptr;  ///< Or the prediction; absent for finals alone.
  const RecordedFinalist* finalist = nullptr;

  const VariantResult& result() const { return newest->result; }
  /// Ranked by: the screening's time, under which all variants were measured alike.
  double time_us() const { return (screening != nullptr ? screening : newest)->result.time_us(); }
  bool ok() const { return result().state == ResultState::ok; }
};

/// Results of one problem on one device that may be compared: one provenance, one state of L2.
struct ProblemStory {
  Problem problem;
  DeviceInfo device;
  GpuProfile profile;
  Provenance provenance = Provenance::measured;
  std::string l2_state;
  std::string overlay_digest;
  std::set<long long> run_ids;
  std::vector<VariantStory> stories;  ///< The best first, failures last.
  const RecordedDecision* decision = nullptr;
  std::map<std::string, Variant> winners_by;  ///< Of objectives beside time.
  long long results = 0;                      ///< Rows, finals and repetitions included.

  bool has_best() const { return !stories.empty() && stories.front().ok(); }
  const VariantStory& best() const { return stories.front(); }
  long long succeeded() const { return std::ranges::count_if(stories, &VariantStory::ok); }
};

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
    if (field.decision == nullptr) {
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

/// A column that metrics() does not declare; rows are lists in this order, which keeps the page
/// small.
struct Column {
  const char* name;
  Json (*value)(const ProblemStory&, const VariantStory&);
};

template <typename Read>
Json if_ok(const VariantStory& story, Read&& read) {
  return story.ok() ? Json(read(story.result())) : Json();
}

template <typename Read>
Json of_accesses(const VariantStory& story, Read&& read) {
  const bool known = story.ok() && accesses_unknown_because(story.result()).empty();
  return known ? or_null(read(*story.result().measurement()->accesses)) : Json();
}

/// The value of an axis; null where the operation lacks it.
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

constexpr Column kColumns[] = {
    {"result_id",
     [](const ProblemStory&, const VariantStory& story) { return Json(story.newest->id); }},
    {"label", [](const ProblemStory&,
                 const VariantStory& story) { return Json(describe(story.result().variant)); }},
    {"key", [](const ProblemStory&,
               const VariantStory& story) { return Json(to_key(story.result().variant)); }},
    {"family",
     [](const ProblemStory&, const VariantStory& story) {
       return Json(std::string(to_string(family_of(story.result().variant))));
     }},
    {"tile", [](const ProblemStory&,
                const VariantStory& story) { return Json(tile_text(story.result().variant)); }},
    {"stages",
     [](const ProblemStory&, const VariantStory& story) {
       return axis_json(story.result().variant, "stages");
     }},
    {"order", [](const ProblemStory&,
                 const VariantStory& story) { return order_json(story.result().variant); }},
    {"persistence",
     [](const ProblemStory&, const VariantStory& story) {
       return axis_json(story.result().variant, "persistence");
     }},
    {"state",
     [](const ProblemStory&, const VariantStory& story) {
       return Json(std::string(to_string(story.result().state)));
     }},
    {"detail",
     [](const ProblemStory&, const VariantStory& story) { return Json(story.result().detail); }},
    {"finals_us",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr && is_final(story.result()) ? Json(story.result().time_us())
                                                                    : Json();
     }},
    {"ratio",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio) : Json();
     }},
    {"ratio_low",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio_low) : Json();
     }},
    {"ratio_high",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio_high) : Json();
     }},
    {"tied",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->tied) : Json();
     }},
    {"l2_miss_sectors",
     [](const ProblemStory&, const VariantStory& story) {
       return story.ok() ? or_null(l2_miss_sectors(story.result())) : Json();
     }},
    {"dram_bytes",
     [](const ProblemStory&, const VariantStory& story) {
       return story.ok() ? or_null(dram_bytes(story.result())) : Json();
     }},
    {"conflicts_per_wavefront",
     [](const ProblemStory&, const VariantStory& story) {
       return of_accesses(story, conflicts_per_wavefront);
     }},
    {"bytes_per_sector",
     [](const ProblemStory&, const VariantStory& story) {
       return of_accesses(story, bytes_per_sector);
     }},
};

/// The metrics that tables show.
std::vector<const Metric*> shown_metrics() {
  std::vector<const Metric*> shown;
  for (const Metric& metric : metrics()) {
    if (!metric.title.empty()) {
      shown.push_back(&metric);
    }
  }
  return shown;
}

/// The newest result with the time that ranks it: all variants were timed alike in the screening.
VariantResult shown_result(const VariantStory& story) {
  VariantResult shown = story.result();
  if (auto* measurement = std::get_if<Measurement>(&shown.outcome); measurement && story.ok()) {
    measurement->median_us = story.time_us();
  }
  return shown;
}

Json metric_json(const Metric& metric, const Problem& problem, const VariantResult& result) {
  const auto value = metric.value(problem, result);
  return value ? std::visit([](auto number) { return Json(number); }, *value) : Json();
}

Json columns_json() {
  Json names = Json::array();
  for (const Column& column : kColumns) {
    names.push_back(column.name);
  }
  for (const Metric* metric : shown_metrics()) {
    names.push_back(metric->key);
  }
  return names;
}

Json metrics_json() {
  Json declared = Json::array();
  for (const Metric* metric : shown_metrics()) {
    declared.push_back({{"key", metric->key},
                        {"title", metric->title},
                        {"meaning", metric->meaning},
                        {"of_energy", metric->is_of_energy}});
  }
  return declared;
}

Json rows_json(const ProblemStory& field) {
  const std::vector<const Metric*> metrics_of_page = shown_metrics();
  Json rows = Json::array();
  for (const VariantStory& story : field.stories) {
    Json row = Json::array();
    for (const Column& column : kColumns) {
      row.push_back(column.value(field, story));
    }
    const VariantResult shown = shown_result(story);
    for (const Metric* metric : metrics_of_page) {
      row.push_back(metric_json(*metric, field.problem, shown));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The fastest time found by the number of variants tried.
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

/// The best of each tile, fastest first.
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

/// Cyclic and sawtooth results, taken one like the other, fastest first.
std::vector<VariantResult> order_results(const ProblemStory& field) {
  std::vector<VariantResult> results;
  for (const VariantStory& story : field.stories) {
    if (story.ok() && order_of(story.result().variant) != Order::right_to_left) {
      results.push_back((story.screening != nullptr ? story.screening : story.newest)->result);
    }
  }
  std::ranges::stable_sort(results, {}, &VariantResult::time_us);
  return results;
}

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
  const auto curve = story.problem.operation().miss_ratio_curve(
      story.problem, result.variant, result.ctas_per_sm, story.profile, capacities);
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

/// Both orders of the best tile; none where the model does not know the operation.
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

/// Of the best, as a share; 0 where it was measured.
double error_of_best(const ProblemStory& field) {
  return prediction_error(field.problem, field.best().result(), field.profile);
}

std::string best_sentence(const ProblemStory& field) {
  const VariantStory& best = field.best();
  const bool in_finals = best.finalist != nullptr && is_final(best.result());
  return describe(best.result().variant) + " with " + time_text(best.result().time_us()) + ", " +
         uncertain_text(tflop_per_s(field.problem, best.result()), error_of_best(field)) +
         " TFLOP/s (" + std::string(to_string(field.provenance)) +
         (in_finals ? ", in the finals" : "") + ").";
}

const VariantStory* first_not_tied(const ProblemStory& field) {
  for (const VariantStory& story : field.stories) {
    if (&story != &field.best() && story.ok() &&
        (story.finalist == nullptr || !story.finalist->tied)) {
      return &story;
    }
  }
  return nullptr;
}

std::string ratio_text(const RecordedFinalist& finalist) {
  return significant_text(finalist.ratio, 4) + " [" + significant_text(finalist.ratio_low, 4) +
         ", " + significant_text(finalist.ratio_high, 4) + "]";
}

std::string margin_sentence(const ProblemStory& field) {
  const VariantStory* next = first_not_tied(field);
  if (next == nullptr) {
    return "Nothing else that succeeded is slower by enough to matter.";
  }
  const std::string name = describe(next->result().variant);
  if (field.decision != nullptr && next->finalist != nullptr) {
    return "The next that is not tied, " + name + ", takes " + ratio_text(*next->finalist) +
           " times as long (in shared rounds, 95 % interval).";
  }
  return "The next, " + name + ", takes " +
         significant_text(next->time_us() / field.best().time_us(), 4) + " times as long (" +
         (field.provenance == Provenance::measured ? "medians of the screening)."
                                                   : "both predicted).");
}

/// How many variants the model cannot tell from the best; empty where its error is not known.
std::string ties_sentence(const ProblemStory& field) {
  const double error = error_of_best(field);
  if (error <= 0) {
    return "";
  }
  const double latest_us = field.best().time_us() * (1 + error);
  const auto tied = std::ranges::count_if(field.stories, [&](const VariantStory& story) {
    return story.ok() && story.time_us() <= latest_us;
  });
  return " Times are uncertain by " + percent_text(error) + "; " + std::to_string(tied - 1) +
         " others lie within that of the best.";
}

std::string significance_sentence(const ProblemStory& field) {
  if (field.provenance == Provenance::predicted) {
    return "Nothing was measured, so there is no significance: predictions rank variants, and the "
           "first few should be measured." +
           ties_sentence(field);
  }
  if (field.decision == nullptr) {
    return "Not decided in finals: medians taken one after the other err by up to 2 %, so "
           "differences below that are not significant.";
  }
  long long rounds = 0;
  long long tied = 0;
  for (const RecordedFinalist& finalist : field.decision->finalists) {
    rounds = std::max(rounds, finalist.rounds);
    tied += finalist.tied ? 1 : 0;
  }
  const std::string head = "Decided in " + std::to_string(rounds) + " shared rounds of " +
                           std::to_string(field.decision->finalists.size()) + " finalists. ";
  const std::string threshold =
      field.decision->tie_threshold
          ? significant_text(*field.decision->tie_threshold * 100, 2) + " %"
          : "the threshold";
  return head +
         (tied > 1 ? std::to_string(tied) + " are tied: their differences are under " + threshold +
                         " or in doubt, and excess misses, registers and key chose among "
                         "them. The others are slower by more than that."
                   : "It is faster than all others by more than " + threshold + ".");
}

std::string avoidable_sentence(const ProblemStory& field) {
  const VariantResult& best = field.best().result();
  const auto excess = excess_miss_sectors(field.problem, best);
  const long long compulsory = compulsory_sectors(field.problem);
  if (!excess) {
    return "Unknown: there are no counters of memory for it. " + count_text(compulsory) +
           " sectors are compulsory.";
  }
  if (*excess == 0) {
    return "None: nothing was fetched twice; " + count_text(compulsory) +
           " sectors are compulsory (" + std::string(to_string(field.provenance)) + ").";
  }
  return count_text(*excess) + " sectors (" + bytes_text(*excess * kSectorBytes) +
         ") are excess misses, fetched again after eviction, beside " + count_text(compulsory) +
         " compulsory ones (" + std::string(to_string(field.provenance)) + ").";
}

/// What the losing order costs where nothing else differs; empty where no such pair was tried.
std::string order_sentence(const ProblemStory& field) {
  const std::vector<VariantResult> results = order_results(field);
  const auto pair = best_order_pair(results);
  if (!pair) {
    return "";
  }
  const auto cyclic = excess_miss_sectors(field.problem, *pair->cyclic);
  const auto sawtooth = excess_miss_sectors(field.problem, *pair->sawtooth);
  std::string text = "Sawtooth against cyclic, all else equal (" +
                     describe(pair->sawtooth->variant) + "): time " +
                     change_text(pair->cyclic->time_us(), pair->sawtooth->time_us());
  if (cyclic && sawtooth) {
    const double mb = static_cast<double>((*cyclic - *sawtooth) * kSectorBytes) / kBytesPerMb;
    constexpr double kNoticeableMb = 0.1;
    text += std::abs(mb) < kNoticeableMb
                ? ", and both fetch as much"
                : std::string(", and ") + (mb < 0 ? "sawtooth" : "cyclic") + " fetches " +
                      significant_text(std::abs(mb), 4) + " MB more";
  }
  return text + ".";
}

Json answers_json(const ProblemStory& field) {
  const VariantResult& best = field.best().result();
  return {{"best", best_sentence(field)},
          {"margin", margin_sentence(field)},
          {"significance", significance_sentence(field)},
          {"limits", limits_in_words(field.problem, best, field.profile)},
          {"avoidable", avoidable_sentence(field)},
          {"order", order_sentence(field)},
          {"next", next_steps_in_words(field.problem, best, field.profile)}};
}

/// "Least energy: ..., the fastest takes ...", for each objective; nothing of energy where none is
/// known.
Json winners_json(const ProblemStory& field) {
  Json sentences = Json::array();
  for (const auto& [objective, variant] : field.winners_by) {
    const auto story = std::ranges::find_if(
        field.stories,
        [&variant = variant](const VariantStory& one) { return one.result().variant == variant; });
    if (story == field.stories.end() || !story->ok()) {
      continue;
    }
    std::string text =
        "By " + objective + ": " + describe(variant) + ", " + time_text(story->time_us());
    if (const auto& energy = story->result().measurement()->energy) {
      text += ", " + significant_text(energy->mean_mj(), 4) + " mJ";
    }
    sentences.push_back(text + ".");
  }
  return sentences;
}

/// Ranks, from 1, of those that nobody beats in time and energy; null where no energy is known.
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

Json unit_use_json(const ProblemStory& field) {
  Json use = Json::array();
  for (const UnitUse& unit : unit_use(field.problem, field.best().result(), field.profile)) {
    use.push_back({{"unit", unit.unit}, {"share", unit.share}});
  }
  return use;
}

Json roofline_json(const ProblemStory& field) {
  const Roofline roof = roofline(field.problem, field.best().result(), field.profile);
  return {{"tflop_per_s", roof.tflop_per_s},
          {"algorithmic_intensity", roof.algorithmic_intensity},
          {"observed_intensity", or_null(roof.observed_intensity)},
          {"vertical_gap", roof.vertical_gap()},
          {"horizontal_gap", or_null(roof.horizontal_gap())}};
}

Json field_json(const ProblemStory& field, std::size_t device) {
  Json json = {{"problem", field.problem},
               {"title", to_string(field.problem)},
               {"device", device},
               {"provenance", std::string(to_string(field.provenance))},
               {"l2_state", field.l2_state},
               {"overlay", field.overlay_digest.substr(0, 12)},
               {"flop", flop_count(field.problem)},
               {"compulsory_sectors", compulsory_sectors(field.problem)},
               {"runs", field.run_ids},
               {"results", field.results},
               {"tried", field.stories.size()},
               {"succeeded", field.succeeded()},
               {"decided", field.decision != nullptr},
               {"rows", rows_json(field)}};
  if (field.has_best()) {
    const double error = error_of_best(field);
    json["prediction_error"] = error > 0 ? Json(error) : Json();
    json["answers"] = answers_json(field);
    json["accesses"] = accesses_json(field.problem, field.best().result());
    json["accesses_unknown"] = accesses_unknown_because(field.best().result());
    json["energy_front"] = front_json(field);
    json["winners_by"] = winners_json(field);
    json["unit_use"] = unit_use_json(field);
    json["roofline"] = roofline_json(field);
    json["tiles"] = tiles_json(field);
    json["progress"] = progress_json(field);
    json["curves"] = curves_json(field);
  }
  return json;
}

Json device_json(const ProblemStory& field) {
  const GpuProfile& profile = field.profile;
  return {{"device", field.device},
          {"text", describe(field.device)},
          {"profile", profile.id},
          {"clock_mhz", profile.clock_mhz},
          {"peak_tflop_per_s", peak_tflop_per_s(Family::portable, profile)},
          {"hopper_peak_tflop_per_s", field.device.sm_arch == kHopperArch
                                          ? Json(peak_tflop_per_s(Family::hopper, profile))
                                          : Json()},
          {"dram_gb_per_s", profile.device.dram_gb_per_s * profile.dram_efficiency},
          {"l2_gb_per_s", profile.l2_gb_per_s},
          {"l2_effective_bytes", profile.l2_effective_bytes}};
}

/// Looks up the results of fields, all of one device and provenance.
ResultOf results_of(const std::vector<const ProblemStory*>& fields) {
  std::map<std::pair<Problem, Variant>, const VariantResult*> results;
  for (const ProblemStory* field : fields) {
    for (const VariantStory& story : field->stories) {
      results.try_emplace({field->problem, story.result().variant}, &story.result());
    }
  }
  return [results = std::move(results)](const StudyPoint& point) {
    const auto result = results.find({point.problem, point.variant});
    return result != results.end() ? std::optional(*result->second) : std::nullopt;
  };
}

/// Fields by the place of their device and their provenance.
using FieldGroups = std::map<std::pair<std::size_t, Provenance>, std::vector<const ProblemStory*>>;

/// The studies of which results are among the fields of a group.
void add_studies(const FieldGroups& groups, const FieldGroups::value_type& group, Json& studies) {
  const auto& [device, provenance] = group.first;
  const ResultOf result_of = results_of(group.second);
  StudyContext context;
  const auto predicted = groups.find({device, Provenance::predicted});
  if (provenance == Provenance::measured && predicted != groups.end()) {
    context.predictions = results_of(predicted->second);
  }
  for (const StudyEntry& entry : swr::studies()) {
    Json study = study_json(entry.make(group.second.front()->device), result_of, context);
    if (!study.is_null()) {
      study["device"] = device;
      study["provenance"] = std::string(to_string(provenance));
      studies.push_back(std::move(study));
    }
  }
}

Json run_json(const RecordedRun& run) {
  return {{"id", run.id},
          {"started_at", run.started_at},
          {"finished_at", or_null(run.finished_at)},
          {"command", run.info.command},
          {"swr_version", run.info.swr_version},
          {"templates_digest", run.info.templates_digest},
          {"nvrtc_version", run.info.nvrtc_version},
          {"driver_version", run.info.driver_version},
          {"l2_state", run.info.l2_state},
          {"strategy", run.info.strategy},
          {"seed", run.info.seed}};
}

}  // namespace

Json page_data(const History& history, const std::set<long long>& winners,
               const PageOrigin& origin) {
  Json data = {{"swr_version", SWR_VERSION}, {"database", origin.database},
               {"command", origin.command},  {"written_at", origin.written_at},
               {"columns", columns_json()},  {"metrics", metrics_json()}};
  for (const char* list : {"devices", "fields", "studies", "runs"}) {
    data[list] = Json::array();
  }
  std::vector<DeviceInfo> devices;
  const std::vector<ProblemStory> fields = fields_of(history, winners);
  FieldGroups by_device;
  for (const ProblemStory& field : fields) {
    const auto known = std::ranges::find_if(
        devices, [&](const DeviceInfo& device) { return same_device(device, field.device); });
    const auto index = static_cast<std::size_t>(known - devices.begin());
    if (known == devices.end()) {
      devices.push_back(field.device);
      data["devices"].push_back(device_json(field));
    }
    data["fields"].push_back(field_json(field, index));
    by_device[{index, field.provenance}].push_back(&field);
  }
  for (const auto& group : by_device) {
    add_studies(by_device, group, data["studies"]);
  }
  for (const RecordedRun& run : history.runs) {
    data["runs"].push_back(run_json(run));
  }
  return data;
}

}  // namespace swr
