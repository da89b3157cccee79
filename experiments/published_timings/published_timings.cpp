// SPDX-License-Identifier: MIT
// Predictions beside what others have published for the same problems on the same chips: a table
// by chip, and of the published tiles. Needs no GPU.
#include "operations/attention/model/published_timings.h"

#include <swr/error.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace swr;

struct Options {
  std::string points;
  std::string kernels;
  std::vector<std::string> profiles;  ///< "chip=profile".
  std::string costs;  ///< Profile whose kernel costs stand for those of every chip; may be empty.
  bool all_points = false;
  double least_us = 200.0;
};

struct Row {
  PublishedTiming timing;
  GpuProfile profile;
  std::optional<ForeseenTime> best;
  std::optional<ForeseenTime> tile;  ///< Of the published tile.
};

/// Kernels of the tile; of its warps too where they are known.
std::vector<KnownKernel> of_tile(const std::vector<KnownKernel>& kernels,
                                 const AttentionVariant& tile) {
  std::vector<KnownKernel> same;
  std::ranges::copy_if(kernels, std::back_inserter(same), [&](const KnownKernel& kernel) {
    return kernel.variant.tile_m == tile.tile_m && kernel.variant.tile_n == tile.tile_n &&
           (tile.warps == 0 || kernel.variant.warps == tile.warps);
  });
  return same;
}

std::vector<KnownKernel> of_space(const std::vector<KnownKernel>& kernels) {
  std::vector<KnownKernel> own;
  std::ranges::copy_if(kernels, std::back_inserter(own), &KnownKernel::in_space);
  return own;
}

void predict_all(std::vector<Row>& rows, const std::vector<KnownKernel>& kernels) {
  const std::vector<KnownKernel> own = of_space(kernels);
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> pool;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    pool.emplace_back([&] {
      for (std::size_t at = next++; at < rows.size(); at = next++) {
        Row& row = rows[at];
        row.best = foresee(row.timing.problem, own, row.profile);
        if (row.timing.tile) {
          row.tile = foresee(row.timing.problem, of_tile(kernels, *row.timing.tile), row.profile);
        }
      }
    });
  }
}

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

void print_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
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

void print_table(const std::vector<Row>& rows, double least_us) {
  std::map<std::string, std::vector<double>> long_ones;
  std::map<std::string, std::vector<double>> by_head_dim;
  std::map<std::string, std::vector<double>> short_ones;
  std::map<std::string, std::pair<int, int>> tiles;
  for (const Row& row : rows) {
    if (!row.best) {
      continue;
    }
    const double ratio = row.best->time_us / row.timing.time_us;
    const std::string& chip = row.timing.chip;
    if (row.timing.time_us < least_us) {
      short_ones[chip].push_back(ratio);
      continue;
    }
    long_ones[chip].push_back(ratio);
    by_head_dim[chip + " D " + std::to_string(row.timing.problem.head_dim) +
                (row.timing.problem.causal ? " causal" : " none")]
        .push_back(ratio);
    if (row.tile) {
      ++tiles[chip].second;
      tiles[chip].first += row.tile->time_us <= 1.03 * row.best->time_us;
    }
  }
  const char* const header =
      "| Chip | Points | Bias of the time | Spread | Within 12 %% | Farthest |\n"
      "|---|---|---|---|---|---|\n";
  std::printf(header);
  for (const auto& [chip, ratios] : long_ones) {
    print_accuracy(chip, ratios);
  }
  std::printf("\nShorter than %.0f us\n\n", least_us);
  std::printf(header);
  for (const auto& [chip, ratios] : short_ones) {
    print_accuracy(chip, ratios);
  }
  std::printf("\nBy head_dim and mask\n\n");
  std::printf(header);
  for (const auto& [name, ratios] : by_head_dim) {
    print_accuracy(name, ratios);
  }
  std::printf("\nPublished tiles within 3 %% of the model's choice:");
  for (const auto& [chip, counts] : tiles) {
    std::printf(" %s %d of %d", chip.c_str(), counts.first, counts.second);
  }
  std::printf("\n");
}

void run(const Options& options) {
  const std::vector<PublishedTiming> best = best_published(read_published_timings(options.points));
  const std::map<std::string, GpuProfile> profiles = profiles_of(options, best);
  std::vector<Row> rows;
  for (const PublishedTiming& timing : best) {
    const auto profile = profiles.find(timing.chip);
    if (profile != profiles.end()) {
      rows.push_back({.timing = timing, .profile = profile->second, .best = {}, .tile = {}});
      if (timing.clock_mhz > 0) {
        rows.back().profile.clock_mhz = timing.clock_mhz;
      }
    }
  }
  if (!options.costs.empty()) {
    const KernelCosts costs = load_profile(options.costs).kernel;
    std::ranges::for_each(rows, [&](Row& row) { row.profile.kernel = costs; });
  }
  predict_all(rows, read_known_kernels(options.kernels));
  if (options.all_points) {
    print_rows(rows);
  }
  print_table(rows, options.least_us);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Predictions beside published timings"};
  app.add_option("--points", options.points, "published timings: points.csv")->required();
  app.add_option("--kernels", options.kernels, "kernels.csv of published_kernels")->required();
  app.add_option("--profile", options.profiles, "CHIP=PROFILE, a name or a file");
  app.add_option("--costs", options.costs, "profile whose kernel costs all chips get");
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
