// SPDX-License-Identifier: MIT
// Predictions of GEMM beside what others have published for the same products on the same chips.
// Needs no GPU.
#include "core/operation.h"
#include "experiments/published_timings/csv_table.h"
#include "experiments/published_timings/judged_timings.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace swr;

/// Shorter products hold the launch and what a harness waits for.
constexpr double kLeastUs = 20.0;

struct Published {
  std::string chip;
  std::string library;
  GemmProblem problem;
  Family family = Family::portable;  ///< Of the instruction that the library's kernel uses.
  std::string order;  ///< Of a 128x128 tile: RASTER, RASTER/STRIDE or grouped/ROWS; may be empty.
  double clock_mhz = 0.0;  ///< 0 where the source did not fix it.
  double tflop_per_s = 0.0;
};

/// "bf16", "fp16", or "e4m3" and what has a scale: tensor, row or block.
void set_type(GemmProblem& problem, const std::string& text) {
  if (!text.starts_with("e4m3")) {
    problem.dtype = text == "bf16" ? DType::bf16 : DType::fp16;
    problem.output = text == "bf16" ? OutputType::bf16 : OutputType::fp16;
    return;
  }
  problem.dtype = DType::e4m3;
  problem.scaling = text.ends_with("block") ? Scaling::block
                    : text.ends_with("row") ? Scaling::row
                                            : Scaling::tensor;
  if (problem.scaling == Scaling::block) {
    problem.accuracy = Accuracy::two_level;
  }
}

/// Tile and order of the published kernel; all variants where it is not known.
SpaceOptions space_of(const std::string& order) {
  if (order.empty()) {
    return {};
  }
  const std::size_t slash = order.find('/');
  const std::string raster = order.substr(0, slash);
  const int number = slash == std::string::npos ? 0 : std::stoi(order.substr(slash + 1));
  const bool is_grouped = raster == "grouped";
  return {.tiles = {{.tile_m = 128, .tile_n = 128}},
          .restrictions = {{"raster", {raster}},
                           {"raster_group", {is_grouped ? number : 1}},
                           {"swizzle_stride", {is_grouped ? 0 : number}},
                           {"splits", {1}}}};
}

std::vector<Published> read(const std::string& file) {
  CsvTable table(file);
  std::vector<Published> points;
  while (table.next()) {
    const bool has_sizes = !table.text("m").empty();
    if (table.text("op") != "gemm" || !has_sizes || !table.text("doubtful").empty()) {
      continue;
    }
    Published point{.chip = table.text("chip"),
                    .library = table.text("library"),
                    .problem = {.m = table.number<int>("m"),
                                .n = table.number<int>("n"),
                                .k = table.number<int>("k")},
                    .clock_mhz = table.optional_number("clock_mhz").value_or(0.0),
                    .tflop_per_s = table.number<double>("tflops")};
    set_type(point.problem, table.text("dtype"));
    constexpr std::string_view kTile = "128x128 ";
    if (table.text("tile").starts_with(kTile)) {
      point.order = table.text("tile").substr(kTile.size());
    }
    point.family = table.text("kernel") == "wgmma" ? Family::hopper : Family::portable;
    points.push_back(point);
  }
  return points;
}

/// The fastest of each product and order on each chip.
std::vector<Published> best_of(const std::vector<Published>& points) {
  using Key = std::tuple<std::string, GemmProblem, Family, double, std::string>;
  std::map<Key, Published> best;
  for (const Published& point : points) {
    const Key key{point.chip, point.problem, point.family, point.clock_mhz, point.order};
    const auto [entry, is_new] = best.try_emplace(key, point);
    if (!is_new && point.tflop_per_s > entry->second.tflop_per_s) {
      entry->second = point;
    }
  }
  std::vector<Published> all;
  for (const auto& [key, point] : best) {
    all.push_back(point);
  }
  return all;
}

struct Foreseen {
  double time_us = 0.0;
  Variant variant;
};

/// The fastest of the variants of the family that the model would walk first: those with the lowest
/// floors.
std::optional<Foreseen> foresee(const Published& point, const GpuProfile& profile,
                                std::size_t walks) {
  const Problem problem = point.problem;
  const auto predictor = make_predictor(problem.operation(), profile);
  std::vector<std::pair<double, Variant>> floors;
  for (const Variant& variant :
       enumerate_space(problem, profile.device, space_of(point.order)).variants) {
    if (variant.as<GemmVariant>().family == point.family) {
      floors.emplace_back(*predictor->floor_us(problem, variant), variant);
    }
  }
  std::ranges::stable_sort(floors, {}, &std::pair<double, Variant>::first);
  floors.resize(std::min(floors.size(), walks));
  std::optional<Foreseen> best;
  for (const auto& [floor_us, variant] : floors) {
    const KernelResources resources = predictor->estimated_resources(problem, variant);
    if (check_compiled(problem, variant, profile.device, resources)) {
      continue;
    }
    const int ctas = occupancy(resources, problem, variant, profile.device).ctas_per_sm;
    const double time_us = predictor->predict(problem, variant, resources, ctas).time_us;
    if (!best || time_us < best->time_us) {
      best = {time_us, variant};
    }
  }
  return best;
}

void print_accuracy(const std::string& chip, const std::vector<double>& ratios) {
  const PublishedAccuracy accuracy = assess_ratios(ratios);
  std::printf("| %s | %zu | %+.1f %% | %.1f %% | %.0f %% | %+.0f %% |\n", chip.c_str(),
              accuracy.points, 100 * accuracy.bias, 100 * accuracy.spread,
              100 * accuracy.within_share, 100 * accuracy.worst);
}

/// What a profile's prediction_errors say of GEMM: root mean squares of the logarithms. A chip with
/// fewer than four products takes that of all chips, each as one.
void print_errors(const std::map<std::string, std::vector<double>>& ratios) {
  constexpr std::size_t kFewest = 4;
  double of_chips = 0.0;
  std::printf("\nErrors of GEMM from products of %.0f us and more:", kLeastUs);
  for (const auto& [chip, all] : ratios) {
    double squares = 0.0;
    for (const double ratio : all) {
      squares += std::log(ratio) * std::log(ratio);
    }
    const double mean_square = squares / static_cast<double>(all.size());
    of_chips += mean_square;
    if (all.size() >= kFewest) {
      std::printf(" %s %.2f", chip.c_str(), std::sqrt(mean_square));
    }
  }
  std::printf(", others %.2f\n", std::sqrt(of_chips / static_cast<double>(ratios.size())));
}

/// The row of the table that it counts for.
std::string group_of(const Published& point) {
  return point.chip + (point.family == Family::hopper       ? ", wgmma"
                       : !point.order.empty()               ? ", FP8 by order"
                       : point.problem.dtype == DType::e4m3 ? ", FP8"
                                                            : "");
}

void run(const std::string& points, std::size_t walks, const std::string& chip) {
  const std::vector<std::string> known = profile_ids();
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, std::vector<double>> lasting;
  for (const Published& point : best_of(read(points))) {
    if (std::ranges::find(known, point.chip) == known.end() ||
        (!chip.empty() && point.chip != chip)) {
      continue;
    }
    GpuProfile profile = load_profile(point.chip);
    if (point.clock_mhz > 0) {
      profile.clock_mhz = point.clock_mhz;
    }
    const auto foreseen = foresee(point, profile, walks);
    if (!foreseen) {
      continue;
    }
    const double published_us = flop_count(point.problem) / point.tflop_per_s / 1e6;
    const double ratio = foreseen->time_us / published_us;
    if (published_us >= kLeastUs) {
      lasting[point.chip].push_back(ratio);
    }
    ratios[group_of(point)].push_back(ratio);
    std::printf("%s %d %d %d %s%s: %s %.1f TFLOP/s, predicted %.1f, time %+.0f %%, %s\n",
                point.chip.c_str(), point.problem.m, point.problem.n, point.problem.k,
                std::string(to_string(point.problem.dtype)).c_str(),
                (point.order.empty() ? "" : " " + point.order).c_str(), point.library.c_str(),
                point.tflop_per_s, point.tflop_per_s / ratio, 100 * (ratio - 1),
                to_key(foreseen->variant).c_str());
    std::fflush(stdout);
  }
  print_errors(lasting);
  std::printf(
      "\n| Chip | Points | Bias of the time | Spread | Within 12 %% | Farthest |\n"
      "|---|---|---|---|---|---|\n");
  for (const auto& [chip, all] : ratios) {
    print_accuracy(chip, all);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string points;
  std::string chip;
  std::size_t walks = 12;
  CLI::App app{"Predictions of GEMM beside published rates"};
  app.add_option("--points", points, "published timings: points.csv")->required();
  app.add_option("--walks", walks, "variants walked for each product, of the lowest floors");
  app.add_option("--chip", chip, "this chip alone");
  CLI11_PARSE(app, argc, argv);
  try {
    run(points, walks, chip);
  } catch (const std::exception& error) {
    std::cerr << "published_gemm: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
