// SPDX-License-Identifier: MIT
#include "tuner/study/study.h"

#include "tuner/metrics.h"
#include "tuner/model/analytic_sectors.h"
#include "tuner/number_text.h"
#include "tuner/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <utility>

namespace swr {
namespace {

using Value = std::optional<double>;

Value number(std::optional<long long> value) {
  return value ? Value(static_cast<double>(*value)) : std::nullopt;
}

Value sectors(const StudyRow& row) { return number(l2_sectors(row.result)); }
Value formula(const StudyRow& row) {
  return analytic_sectors(row.point->problem, row.point->variant.tile_m);
}
Value deviation(const StudyRow& row) {
  const Value all = sectors(row);
  return all ? Value(*all / *formula(row) - 1.0) : std::nullopt;
}
Value excess(const StudyRow& row) {
  return number(excess_miss_sectors(row.point->problem, row.result));
}
Value compulsory(const StudyRow& row) {
  return static_cast<double>(compulsory_sectors(row.point->problem));
}
/// Counted where it was measured; of a prediction what compulsory and excess misses leave.
Value hit_rate(const StudyRow& row) {
  if (const Measurement* measurement = row.result.measurement()) {
    const bool counted = measurement->counters && measurement->counters->l2_lookups > 0;
    return counted ? Value(static_cast<double>(measurement->counters->l2_hits) /
                           static_cast<double>(measurement->counters->l2_lookups))
                   : std::nullopt;
  }
  return 1.0 - (*compulsory(row) + *excess(row)) / *sectors(row);
}
Value time_us(const StudyRow& row) { return row.result.time_us(); }
Value p95_us(const StudyRow& row) {
  const Measurement* measurement = row.result.measurement();
  return measurement != nullptr ? Value(measurement->p95_us) : std::nullopt;
}
Value rate(const StudyRow& row) { return tflop_per_s(row.point->problem, row.result); }

std::string metric_text(const StudyMetric& metric, Value value) {
  if (!value) {
    return "-";
  }
  const std::string_view key = metric.key;
  if (key == "deviation" || key == "hit_rate") {
    return significant_text(*value * 100, 4) + " %";
  }
  if (key == "time_us" || key == "p95_us") {
    return time_text(*value);
  }
  return key == "tflop_per_s" ? significant_text(*value, 4) : grouped_text(std::llround(*value));
}

/// A table of hundreds of tiles says less than the choices that follow from it.
bool is_grid_of_tiles(const Experiment& experiment) { return experiment.id == "grid"; }

/// Metrics that some row has.
std::vector<StudyMetric> known_metrics(const std::vector<StudyRow>& rows) {
  std::vector<StudyMetric> known;
  std::ranges::copy_if(study_metrics(), std::back_inserter(known), [&](const StudyMetric& metric) {
    return std::ranges::any_of(rows,
                               [&](const StudyRow& row) { return metric.value(row).has_value(); });
  });
  return known;
}

void write_table(std::ostream& out, const Experiment& experiment,
                 const std::vector<StudyRow>& rows) {
  const auto metrics = known_metrics(rows);
  out << "\n## " << experiment.title << "\n\n| series | " << experiment.x_title;
  for (const StudyMetric& metric : metrics) {
    out << " | " << metric.title;
  }
  out << " | |\n|---|---:";
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    out << "|---:";
  }
  out << "|---|\n";
  for (const StudyRow& row : rows) {
    out << "| " << row.point->series << " | " << grouped_text(std::llround(row.point->x));
    for (const StudyMetric& metric : metrics) {
      out << " | " << metric_text(metric, metric.value(row));
    }
    out << " | " << to_string(row.result.provenance()) << " |\n";
  }
}

const AttentionVariant& variant_of(const VariantResult& result) {
  return std::get<AttentionVariant>(result.variant);
}

std::string tile_text(const AttentionVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n);
}

void write_choices(std::ostream& out, const Study& study, const ResultOf& result_of) {
  out << "\n## Best tile by shape\n\n| S | D | mask | type | best | stages | time | p95 | TFLOP/s "
         "| "
         "runner-up | loses | |\n|---:|---:|---|---|---|---:|---:|---:|---:|---|---:|---|\n";
  for (const TileChoice& choice : tile_choices(study, result_of)) {
    const StudyPoint point{choice.problem, variant_of(choice.best), "", 0.0};
    const StudyRow row{&point, choice.best};
    const Value p95 = p95_us(row);
    out << "| " << choice.problem.seq_q << " | " << choice.problem.head_dim << " | "
        << (choice.problem.causal ? "causal" : "none") << " | " << to_string(choice.problem.dtype)
        << " | " << tile_text(variant_of(choice.best)) << " | " << variant_of(choice.best).stages
        << " | " << time_text(choice.best.time_us()) << " | " << (p95 ? time_text(*p95) : "-")
        << " | " << significant_text(*rate(row), 4) << " | "
        << (choice.runner_up ? tile_text(variant_of(*choice.runner_up)) : "-") << " | "
        << (choice.runner_up
                ? significant_text(
                      (choice.runner_up->time_us() / choice.best.time_us() - 1.0) * 100, 3) +
                      " %"
                : "-")
        << " | " << to_string(choice.best.provenance()) << " |\n";
  }
  if (const auto fixed = best_fixed_tile(study, result_of)) {
    out << "\nChoosing by shape gains over the best single tile, " << fixed->tile_m << "x"
        << fixed->tile_n << ": " << significant_text(fixed->mean_loss * 100, 3)
        << " % in the mean, " << significant_text(fixed->worst_loss * 100, 3) << " % at most.\n";
  }
}

/// How sawtooth changes the excess misses of cyclic, where only the order differs and cyclic has
/// enough of them to speak of.
void write_savings(std::ostream& out, const std::vector<StudyRow>& rows) {
  constexpr double kWorthASentence = 0.1;  // Of the compulsory misses.
  std::map<std::pair<AttentionProblem, AttentionVariant>, double> cyclic;
  for (const StudyRow& row : rows) {
    if (row.point->variant.order == Order::cyclic) {
      cyclic[{row.point->problem, row.point->variant}] = excess(row).value_or(0.0);
    }
  }
  std::vector<double> changes;
  for (const StudyRow& row : rows) {
    AttentionVariant other = row.point->variant;
    other.order = Order::cyclic;
    const auto pair = cyclic.find({row.point->problem, other});
    if (row.point->variant.order == Order::sawtooth && pair != cyclic.end() &&
        pair->second > kWorthASentence * *compulsory(row)) {
      changes.push_back(excess(row).value_or(0.0) / pair->second - 1.0);
    }
  }
  if (!changes.empty()) {
    const auto [low, high] = std::ranges::minmax(changes);
    out << "\nExcess misses of sawtooth against cyclic, where cyclic has any to speak of: "
        << change_text(1.0, 1.0 + low) << " to " << change_text(1.0, 1.0 + high) << ".\n";
  }
}

Json choices_json(const Study& study, const ResultOf& result_of) {
  Json choices = Json::array();
  for (const TileChoice& choice : tile_choices(study, result_of)) {
    const auto& next = choice.runner_up;
    choices.push_back(
        {{"problem", to_string(choice.problem)},
         {"best", describe(choice.best.variant)},
         {"time_us", choice.best.time_us()},
         {"runner_up", next ? Json(describe(next->variant)) : Json()},
         {"loss", next ? Json(next->time_us() / choice.best.time_us() - 1.0) : Json()}});
  }
  return choices;
}

Json points_json(const std::vector<StudyRow>& rows) {
  Json points = Json::array();
  for (const StudyRow& row : rows) {
    Json point = {{"series", row.point->series}, {"x", row.point->x}};
    for (const StudyMetric& metric : study_metrics()) {
      const Value value = metric.value(row);
      point[metric.key] = value ? Json(*value) : Json();
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

const std::vector<StudyMetric>& study_metrics() {
  static const std::vector<StudyMetric> kMetrics{{"l2_sectors", "L2 sectors", sectors},
                                                 {"formula_sectors", "formula", formula},
                                                 {"deviation", "deviation", deviation},
                                                 {"compulsory_sectors", "compulsory", compulsory},
                                                 {"excess_sectors", "excess misses", excess},
                                                 {"hit_rate", "hit rate", hit_rate},
                                                 {"time_us", "time", time_us},
                                                 {"p95_us", "p95", p95_us},
                                                 {"tflop_per_s", "TFLOP/s", rate}};
  return kMetrics;
}

SpaceOptions space_of(const AttentionVariant& variant) {
  SpaceOptions space;
  space.tiles = {{variant.tile_m, variant.tile_n, variant.warps}};
  for (const char* name : {"family", "stages", "order", "persistence", "workers", "swizzle",
                           "smem_swizzle", "kv_splits", "pack_gqa"}) {
    space.restrictions[name] = {find_axis(Op::attention, name)->get(variant)};
  }
  return space;
}

std::vector<StudyRow> rows_of(const Experiment& experiment, const ResultOf& result_of) {
  std::vector<StudyRow> rows;
  for (const StudyPoint& point : experiment.points) {
    auto result = result_of(point);
    if (result && result->state == ResultState::ok) {
      rows.push_back({&point, std::move(*result)});
    }
  }
  return rows;
}

void write_study_csv(std::ostream& out, const Study& study, const ResultOf& result_of) {
  out << "study,experiment,series,x,provenance,batch,heads_q,heads_kv,seq_q,seq_kv,head_dim,dtype,"
         "causal";
  for (const StudyMetric& metric : study_metrics()) {
    out << "," << metric.key;
  }
  out << ",variant\n";
  for (const Experiment& experiment : study.experiments) {
    for (const StudyRow& row : rows_of(experiment, result_of)) {
      const AttentionProblem& p = row.point->problem;
      out << study.name << "," << experiment.id << "," << row.point->series << ","
          << std::llround(row.point->x) << "," << to_string(row.result.provenance()) << ","
          << p.batch << "," << p.heads_q << "," << p.heads_kv << "," << p.seq_q << "," << p.seq_kv
          << "," << p.head_dim << "," << to_string(p.dtype) << "," << (p.causal ? 1 : 0);
      for (const StudyMetric& metric : study_metrics()) {
        const Value value = metric.value(row);
        out << "," << (value ? significant_text(*value, 8) : "");
      }
      out << ",\"" << to_key(row.result.variant) << "\"\n";
    }
  }
}

void write_study_tables(std::ostream& out, const Study& study, const ResultOf& result_of) {
  for (const Experiment& experiment : study.experiments) {
    if (is_grid_of_tiles(experiment)) {
      write_choices(out, study, result_of);
      continue;
    }
    const auto rows = rows_of(experiment, result_of);
    if (!rows.empty()) {
      write_table(out, experiment, rows);
      write_savings(out, rows);
    }
  }
}

Json study_json(const Study& study, const ResultOf& result_of) {
  Json experiments = Json::array();
  for (const Experiment& experiment : study.experiments) {
    const auto rows = rows_of(experiment, result_of);
    // Single points of it are in many databases.
    if (2 * rows.size() < experiment.points.size() || is_grid_of_tiles(experiment)) {
      continue;
    }
    experiments.push_back({{"id", experiment.id},
                           {"title", experiment.title},
                           {"x_title", experiment.x_title},
                           {"metric", experiment.metric},
                           {"points", points_json(rows)}});
  }
  Json choices = choices_json(study, result_of);
  constexpr std::size_t kFewestChoices = 40;  // Half of the grid's shapes.
  if (experiments.empty() && choices.size() < kFewestChoices) {
    return {};
  }
  return {{"name", study.name},
          {"title", study.title},
          {"experiments", std::move(experiments)},
          {"choices", std::move(choices)}};
}

std::vector<TileChoice> tile_choices(const Study& study, const ResultOf& result_of) {
  std::map<AttentionProblem, std::map<std::pair<int, int>, VariantResult>> best_of_tile;
  for (const Experiment& experiment : study.experiments) {
    if (!is_grid_of_tiles(experiment)) {
      continue;
    }
    for (StudyRow& row : rows_of(experiment, result_of)) {
      const std::pair tile{variant_of(row.result).tile_m, variant_of(row.result).tile_n};
      auto& tiles = best_of_tile[row.point->problem];
      const auto slot = tiles.find(tile);
      if (slot == tiles.end() || row.result.time_us() < slot->second.time_us()) {
        tiles.insert_or_assign(tile, std::move(row.result));
      }
    }
  }
  std::vector<TileChoice> choices;
  for (auto& [problem, tiles] : best_of_tile) {
    std::vector<VariantResult> ranked;
    for (auto& [tile, result] : tiles) {
      ranked.push_back(std::move(result));
    }
    std::ranges::stable_sort(ranked, {}, &VariantResult::time_us);
    choices.push_back(
        {problem, ranked[0], ranked.size() > 1 ? std::optional(ranked[1]) : std::nullopt});
  }
  return choices;
}

std::optional<FixedTile> best_fixed_tile(const Study& study, const ResultOf& result_of) {
  const auto choices = tile_choices(study, result_of);
  std::map<AttentionProblem, double> best_us;
  for (const TileChoice& choice : choices) {
    best_us[choice.problem] = choice.best.time_us();
  }
  std::map<std::pair<int, int>, std::map<AttentionProblem, double>> losses;
  for (const Experiment& experiment : study.experiments) {
    for (const StudyRow& row : rows_of(experiment, result_of)) {
      const auto best = best_us.find(row.point->problem);
      if (best != best_us.end()) {
        const double loss = row.result.time_us() / best->second - 1.0;
        auto& of_tile = losses[{variant_of(row.result).tile_m, variant_of(row.result).tile_n}];
        const auto [slot, is_new] = of_tile.try_emplace(row.point->problem, loss);
        slot->second = std::min(slot->second, loss);
      }
    }
  }
  std::optional<FixedTile> best;
  for (const auto& [tile, by_problem] : losses) {
    if (by_problem.size() < best_us.size()) {
      continue;  // It does not run everywhere.
    }
    FixedTile fixed{tile.first, tile.second, 0.0, 0.0};
    for (const auto& [problem, loss] : by_problem) {
      fixed.mean_loss += loss / static_cast<double>(by_problem.size());
      fixed.worst_loss = std::max(fixed.worst_loss, loss);
    }
    best = !best || fixed.worst_loss < best->worst_loss ? fixed : best;
  }
  return best;
}

}  // namespace swr
