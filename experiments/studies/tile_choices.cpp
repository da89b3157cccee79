// SPDX-License-Identifier: MIT
#include "experiments/studies/tile_choices.h"

#include "core/metrics.h"
#include "core/number_text.h"
#include "report/report.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <utility>

namespace swr {
namespace {

const AttentionProblem& attention_of(const StudyRow& row) {
  return row.point->problem.as<AttentionProblem>();
}

const AttentionVariant& variant_of(const VariantResult& result) {
  return result.variant.as<AttentionVariant>();
}

std::string tile_text(const AttentionVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n);
}

}  // namespace

std::vector<TileChoice> tile_choices(const Study& study, const ResultOf& result_of) {
  std::map<AttentionProblem, std::map<std::pair<int, int>, VariantResult>> best_of_tile;
  for (const Experiment& experiment : study.experiments) {
    if (!experiment.is_grid_of_tiles) {
      continue;
    }
    for (StudyRow& row : rows_of(experiment, result_of)) {
      const std::pair tile{variant_of(row.result).tile_m, variant_of(row.result).tile_n};
      auto& tiles = best_of_tile[attention_of(row)];
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
      const auto best = best_us.find(attention_of(row));
      if (best != best_us.end()) {
        const double loss = row.result.time_us() / best->second - 1.0;
        auto& of_tile = losses[{variant_of(row.result).tile_m, variant_of(row.result).tile_n}];
        const auto [slot, is_new] = of_tile.try_emplace(attention_of(row), loss);
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

void write_tile_choices(std::ostream& out, const Study& study, const ResultOf& result_of) {
  out << "\n## Best tile by shape\n\n| S | D | mask | type | best | stages | time | p95 | TFLOP/s "
         "| "
         "runner-up | loses | |\n|---:|---:|---|---|---|---:|---:|---:|---:|---|---:|---|\n";
  for (const TileChoice& choice : tile_choices(study, result_of)) {
    const Measurement* measurement = choice.best.measurement();
    const Prediction* prediction = choice.best.prediction();
    out << "| " << choice.problem.seq_q << " | " << choice.problem.head_dim << " | "
        << (choice.problem.causal ? "causal" : "none") << " | " << to_string(choice.problem.dtype)
        << " | " << tile_text(variant_of(choice.best)) << " | " << variant_of(choice.best).stages
        << " | " << time_text(choice.best.time_us()) << " | "
        << (measurement != nullptr ? time_text(measurement->p95_us) : "-") << " | "
        << uncertain_text(tflop_per_s(choice.problem, choice.best).value_or(0.0),
                          prediction != nullptr ? prediction->relative_error : 0.0)
        << " | " << (choice.runner_up ? tile_text(variant_of(*choice.runner_up)) : "-") << " | "
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

}  // namespace swr
