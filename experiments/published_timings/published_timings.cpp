// SPDX-License-Identifier: MIT
// Predictions beside what others have published for the same problems on the same chips: a table
// by chip, and of the published tiles. Needs no GPU.
#include "experiments/published_timings/judged_timings.h"
#include <swr/error.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace swr;

struct Options {
  std::string points;
  std::string kernels;
  std::vector<std::string> profiles;  ///< "chip=profile".
  std::string costs;  ///< Profile whose kernel costs stand for those of every chip; may be empty.
  std::vector<std::pair<std::string, double>> clocks;  ///< SM clocks to try, by chip.
  std::vector<std::string> tuned;  ///< Chips whose clock was chosen by their points.
  std::string out;                 ///< Where predictions go as a file; may be empty.
  bool errors = false;
  bool all_points = false;
  double least_us = 200.0;
};

std::map<std::string, GpuProfile> profiles_of(const Options& options,
                                              const std::vector<PublishedTiming>& timings) {
  std::map<std::string, std::string> named;
  for (const std::string& pair : options.profiles) {
    const std::size_t equals = pair.find('=');
    named[pair.substr(0, equals)] = pair.substr(equals == std::string::npos ? 0 : equals + 1);
  }
  const std::vector<std::string> known = profile_ids();
  std::map<std::string, GpuProfile> profiles;
  for (const PublishedTiming& timing : timings) {
    if (named.contains(timing.chip)) {
      profiles.try_emplace(timing.chip, load_profile(named[timing.chip]));
    } else if (std::ranges::find(known, timing.chip) != known.end()) {
      profiles.try_emplace(timing.chip, load_profile(timing.chip));
    }
  }
  return profiles;
}

std::string tile_text(const AttentionVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n) + "x" +
         std::to_string(variant.warps) + " st" + std::to_string(variant.stages);
}

void print_rows(const std::vector<JudgedTiming>& rows) {
  for (const JudgedTiming& row : rows) {
    const AttentionProblem& p = row.timing.problem;
    std::printf("%s b%d h%d/%d s%d/%d d%d %s: %s %.1f us", row.timing.chip.c_str(), p.batch,
                p.heads_q, p.heads_kv, p.seq_q, p.seq_kv, p.head_dim, p.causal ? "causal" : "none",
                row.timing.library.c_str(), row.timing.time_us);
    if (row.best) {
      std::printf(", predicted %.1f us, ratio %.3f, %s", row.best->time_us,
                  row.best->time_us / row.timing.time_us, tile_text(row.best->variant).c_str());
    }
    if (row.tile) {
      std::printf(", published tile %.3f of it", row.tile->time_us / row.best->time_us);
    }
    std::printf("\n");
  }
}

void print_accuracy(const std::string& name, const std::vector<double>& ratios) {
  if (ratios.empty()) {
    return;
  }
  const PublishedAccuracy accuracy = assess_ratios(ratios);
  std::printf("| %s | %zu | %+.1f %% | %.1f %% | %.0f %% | %+.0f %% |\n", name.c_str(),
              accuracy.points, 100 * accuracy.bias, 100 * accuracy.spread,
              100 * accuracy.within_share, 100 * accuracy.worst);
}

/// Head_dims by which errors are told apart: up to 64, up to 128, longer.
int regime_of(int head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }

using Ratios = std::map<std::string, std::vector<double>>;

void print_accuracies(const std::string& title, const Ratios& ratios) {
  std::printf(
      "\n%s\n\n| | Points | Bias of the time | Spread | Within 12 %% | Farthest |\n"
      "|---|---|---|---|---|---|\n",
      title.c_str());
  for (const auto& [name, all] : ratios) {
    print_accuracy(name, all);
  }
}

/// Root mean square of chips whose ratios these are, each chip as one.
double pooled_error(const std::map<std::string, std::vector<double>>& by_chip,
                    const std::string& left_out) {
  double squares = 0.0;
  int chips = 0;
  for (const auto& [chip, ratios] : by_chip) {
    if (chip != left_out && !ratios.empty()) {
      squares += std::pow(assess_ratios(ratios).error, 2);
      ++chips;
    }
  }
  return chips == 0 ? 0.0 : std::sqrt(squares / chips);
}

/// Errors of each profile, as "prediction_errors" of its file has them: of its own points of the
/// regime where four or more are known, else of the mask, else of the other chips'. `tuned` names
/// chips whose clock was chosen by their points: theirs are those of the others.
void print_errors(const std::vector<JudgedTiming>& rows, double least_us,
                  const std::vector<std::string>& tuned) {
  constexpr std::size_t kEnough = 4;
  using Regime = std::pair<bool, int>;
  std::map<Regime, Ratios> regimes;
  Ratios brief;
  for (const JudgedTiming& row : rows) {
    const double ratio = row.ratio() * measured_lead(row.timing);
    const AttentionProblem& problem = row.timing.problem;
    if (row.timing.time_us < least_us) {
      brief[row.timing.chip].push_back(ratio);
    } else {
      regimes[{problem.causal, regime_of(problem.head_dim)}][row.timing.chip].push_back(ratio);
    }
  }
  const auto own_error = [&](const Ratios& by_chip, const std::string& chip) {
    const auto own = by_chip.find(chip);
    const bool is_tuned = std::ranges::find(tuned, chip) != tuned.end();
    return own != by_chip.end() && own->second.size() >= kEnough && !is_tuned
               ? std::optional(assess_ratios(own->second).error)
               : std::nullopt;
  };
  const auto of_mask = [&](bool causal) {
    Ratios all;
    for (const int head_dim : {64, 128, 256}) {
      for (const auto& [chip, ratios] : regimes[{causal, head_dim}]) {
        all[chip].insert(all[chip].end(), ratios.begin(), ratios.end());
      }
    }
    return all;
  };
  const auto error = [&](bool causal, int head_dim, const std::string& chip) {
    const Ratios& regime = regimes[{causal, head_dim}];
    if (const auto own = own_error(regime, chip)) {
      return *own;
    }
    return own_error(of_mask(causal), chip).value_or(pooled_error(regime, chip));
  };
  std::printf("\nErrors\n\n");
  for (const std::string& chip : profile_ids()) {
    std::printf("%s:", chip.c_str());
    for (const bool causal : {false, true}) {
      std::printf("%s \"%s\": [", causal ? "," : "", causal ? "causal" : "no_mask");
      for (const int head_dim : {64, 128, 256}) {
        std::printf("%s[%d, %.2f]", head_dim == 64 ? "" : ", ", head_dim,
                    error(causal, head_dim, chip));
      }
      std::printf("]");
    }
    std::printf(", \"brief\": %.2f\n", own_error(brief, chip).value_or(pooled_error(brief, chip)));
  }
}

void print_table(const std::vector<JudgedTiming>& rows, double least_us) {
  Ratios long_ones;
  Ratios after_lead;
  Ratios by_regime;
  Ratios short_ones;
  std::map<std::string, std::pair<int, int>> tiles;
  Ratios of_tile;
  for (const JudgedTiming& row : rows) {
    const std::string& chip = row.timing.chip;
    if (row.timing.time_us < least_us) {
      short_ones[chip].push_back(row.ratio());
      continue;
    }
    long_ones[chip].push_back(row.ratio());
    after_lead[chip].push_back(row.ratio() * measured_lead(row.timing));
    by_regime[chip + " D " + std::to_string(row.timing.problem.head_dim) +
              (row.timing.problem.causal ? " causal" : " none")]
        .push_back(row.ratio());
    if (row.tile) {
      ++tiles[chip].second;
      tiles[chip].first += row.tile->time_us <= 1.03 * row.best->time_us;
      of_tile[chip].push_back(row.tile->time_us / row.timing.time_us);
    }
  }
  print_accuracies("By chip", long_ones);
  print_accuracies("After the lead over flash-attn-2 that an H200 showed (A100, H100)", after_lead);
  print_accuracies("Shorter ones", short_ones);
  print_accuracies("By head_dim and mask", by_regime);
  print_accuracies("The published kernel's own tile, as our kernel would run it", of_tile);
  std::printf("\nPublished tiles within 3 %% of the model's choice:");
  for (const auto& [chip, counts] : tiles) {
    std::printf(" %s %d of %d", chip.c_str(), counts.first, counts.second);
  }
  std::printf("\n");
}

void run(const Options& options) {
  const std::vector<PublishedTiming> best = best_published(read_published_timings(options.points));
  std::map<std::string, GpuProfile> profiles = profiles_of(options, best);
  for (auto& [chip, profile] : profiles) {
    if (!options.costs.empty()) {
      profile.kernel = load_profile(options.costs).kernel;
    }
  }
  for (const auto& [chip, clock_mhz] : options.clocks) {
    profiles.at(chip).clock_mhz = clock_mhz;
  }
  const std::vector<JudgedTiming> rows =
      judge_published(best, read_known_kernels(options.kernels), profiles, true);
  if (options.all_points) {
    print_rows(rows);
  }
  if (!options.out.empty()) {
    std::ofstream file(options.out);
    write_predictions(file, rows);
    if (!file.flush()) {
      throw Error(ErrorCode::not_writable,
                  options.out + " cannot be written; check path and space");
    }
  }
  print_table(rows, options.least_us);
  if (options.errors) {
    print_errors(rows, options.least_us, options.tuned);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Predictions beside published timings"};
  app.add_option("--points", options.points, "published timings: points.csv")->required();
  app.add_option("--kernels", options.kernels, "kernels.csv of published_kernels")->required();
  app.add_option("--profile", options.profiles, "CHIP=PROFILE, a name or a file");
  app.add_option("--costs", options.costs, "profile whose kernel costs all chips get");
  app.add_option("--clock", options.clocks, "CHIP MHZ: SM clock in place of the profile's");
  app.add_option("--out", options.out, "also write every prediction to this predictions.csv");
  app.add_flag("--errors", options.errors, "also print the errors of each profile");
  app.add_option("--tuned", options.tuned, "chips whose own points do not tell their errors");
  app.add_flag("--all", options.all_points, "also print every point");
  app.add_option("--least-us", options.least_us, "shorter points in a table of their own");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "published_timings: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
