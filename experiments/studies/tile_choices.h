// SPDX-License-Identifier: MIT
// What follows from a study whose points are tiles of attention: the regimes.
#pragma once

#include "experiments/studies/study.h"
#include <swr/attention_problem.h>

#include <iosfwd>
#include <optional>
#include <vector>

namespace swr {

/// The best tile of each problem, the runner-up and what it loses, and what one tile for all
/// problems would lose: the regimes of a study whose points are tiles.
struct TileChoice {
  AttentionProblem problem;
  VariantResult best;
  std::optional<VariantResult> runner_up;  ///< The best of another tile.
};
std::vector<TileChoice> tile_choices(const Study& study, const ResultOf& result_of);

/// The tile whose worst loss over the problems is smallest, by choosing once for all of them.
struct FixedTile {
  int tile_m = 0;
  int tile_n = 0;
  double mean_loss = 0.0;  ///< Against the choice by shape.
  double worst_loss = 0.0;
};
std::optional<FixedTile> best_fixed_tile(const Study& study, const ResultOf& result_of);

/// Best tile by shape and what choosing by shape gains, as Markdown.
void write_tile_choices(std::ostream& out, const Study& study, const ResultOf& result_of);

/// The studies of attention.
Study sawtooth_study(const DeviceInfo& device);
Study tiled_attention_study(const DeviceInfo& device);

}  // namespace swr
