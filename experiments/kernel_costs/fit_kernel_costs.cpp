// SPDX-License-Identifier: MIT
// Fits what the instructions of the portable attention kernels cost (KernelCosts), and what the
// compiler made of each main loop beside them, to recorded spaces, and says how well the model then
// chooses: in those spaces, in the same when their shapes are left out of the fit, and in others.
// docs/model.md says how the costs of the profiles were found with it and how to fit those of
// another GPU.
#include "experiments/kernel_costs/fitting.h"
#include "experiments/kernel_costs/spaces.h"
#include "experiments/l2_model/accuracy.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/run/objective_choice.h"
#include <swr/error.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace swr;
using fit::Space;
using fit::Spaces;

struct Options {
  std::vector<std::string> fit_files;
  std::vector<std::string> judge_files;
  std::string profile = "h200";
  std::string out;
  fit::FitOptions fit;
  bool cross_validate = false;
};

/// Spread of predicted over measured times among variants within a tenth of the best.
double scatter_near_best(const std::vector<Comparison>& rows) {
  constexpr double kNear = 1.1;
  const auto faster = [](const Comparison& a, const Comparison& b) {
    return a.measured_us < b.measured_us;
  };
  const double best_us = std::min_element(rows.begin(), rows.end(), faster)->measured_us;
  double count = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  for (const Comparison& row : rows) {
    if (row.measured_us < kNear * best_us) {
      const double error = std::log(row.predicted_us / row.measured_us);
      count += 1;
      sum += error;
      squares += error * error;
    }
  }
  return std::sqrt(std::max(0.0, squares / count - sum * sum / (count * count)));
}

/// Means and counts over spaces.
struct Summary {
  int spaces = 0;
  int best_in_8 = 0;
  int tied_in_8 = 0;
  int within_5_percent = 0;
  double rank_correlation = 0.0;
  double regret_of_1 = 0.0;
  double regret_of_4 = 0.0;
  double regret_of_8 = 0.0;
  double scatter = 0.0;
  double log2_place = 0.0;
  int robust_moved = 0;         ///< Spaces in which the robust choice is not the fastest predicted.
  double fastest_regret = 0.0;  ///< Of the fastest predicted, over these spaces.
  double robust_regret = 0.0;   ///< Of the robust choice, over these spaces.
};

/// How the robust choice among ties compares to the fastest predicted.
void judge_robust(const Space& space, const GpuProfile& profile, Summary& summary) {
  std::vector<VariantResult> results;
  std::vector<double> measured_us;
  for (const fit::Row& row : space.rows) {
    VariantResult result{.variant = row.variant, .resources = row.resources};
    result.outcome = fit::predict_row(space, row, profile);
    results.push_back(std::move(result));
    measured_us.push_back(row.measured_us);
  }
  const auto choice = choose_robust(results);
  const auto time_us = [](const VariantResult& result) { return result.time_us(); };
  const auto fastest =
      static_cast<std::size_t>(std::ranges::min_element(results, {}, time_us) - results.begin());
  if (!choice || choice->place == fastest) {
    return;
  }
  const double best_us = *std::ranges::min_element(measured_us);
  ++summary.robust_moved;
  summary.fastest_regret += measured_us[fastest] / best_us - 1;
  summary.robust_regret += measured_us[choice->place] / best_us - 1;
}

/// Place of the best measured variant in the model's order.
std::size_t place_of_best(const std::vector<Comparison>& rows) {
  std::vector<Variant> variants;
  std::vector<double> predicted_us;
  std::size_t best = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    variants.push_back(rows[i].variant);
    predicted_us.push_back(rows[i].predicted_us);
    best = rows[i].measured_us < rows[best].measured_us ? i : best;
  }
  const std::vector<std::size_t> order = shortlist(variants, predicted_us);
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), best) - order.begin()) + 1;
}

/// Adds how the profile chooses among the variants of a space to the summary; a row of the table.
std::string judge(const Space& space, const GpuProfile& profile, Summary& summary) {
  const Eigen::VectorXd predicted_us = fit::predict({&space}, profile);
  std::vector<Comparison> rows;
  for (std::size_t i = 0; i < space.rows.size(); ++i) {
    rows.push_back({.variant = space.rows[i].variant,
                    .measured_us = space.rows[i].measured_us,
                    .predicted_us = predicted_us[static_cast<Eigen::Index>(i)]});
  }
  const Accuracy accuracy = assess(rows);
  const double scatter = scatter_near_best(rows);
  judge_robust(space, profile, summary);
  ++summary.spaces;
  summary.best_in_8 += accuracy.best_among_first_8;
  summary.tied_in_8 += accuracy.tied_among_first_8;
  summary.within_5_percent += accuracy.regret_of_8 <= 0.05;
  summary.rank_correlation += accuracy.rank_correlation;
  summary.regret_of_1 += accuracy.regret_of_1;
  summary.regret_of_4 += accuracy.regret_of_4;
  summary.regret_of_8 += accuracy.regret_of_8;
  summary.scatter += scatter;
  const std::size_t place = place_of_best(rows);
  summary.log2_place += std::log2(static_cast<double>(place));
  char text[512];
  std::snprintf(text, sizeof text,
                "| %s | %zu | %.2f | %.1f / %.1f / %.1f %% | %zu | %.2f | %.1f %% |\n",
                space.name.c_str(), accuracy.variants, accuracy.rank_correlation,
                100 * accuracy.regret_of_1, 100 * accuracy.regret_of_4, 100 * accuracy.regret_of_8,
                place, accuracy.time_ratio, 100 * scatter);
  return text;
}

void print_summary(const std::string& name, const Summary& summary) {
  const double spaces = summary.spaces;
  std::printf("%s: best in first 8 in %d of %d, tied in %d, one within 5 %% in %d\n", name.c_str(),
              summary.best_in_8, summary.spaces, summary.tied_in_8, summary.within_5_percent);
  std::printf("  means: rank correlation %.3f, regret of first 1 / 4 / 8 %.2f / %.2f / %.2f %%, ",
              summary.rank_correlation / spaces, 100 * summary.regret_of_1 / spaces,
              100 * summary.regret_of_4 / spaces, 100 * summary.regret_of_8 / spaces);
  std::printf("place of the best %.1f (geometric), scatter within 10 %% of the best %.2f %%\n",
              std::exp2(summary.log2_place / spaces), 100 * summary.scatter / spaces);
  const double moved = std::max(1, summary.robust_moved);
  std::printf(
      "  the robust choice among ties is another than the fastest in %d: regret %.2f %% there, "
      "of the fastest %.2f %%\n",
      summary.robust_moved, 100 * summary.robust_regret / moved,
      100 * summary.fastest_regret / moved);
}

void judge_all(const std::string& name, const std::vector<Space>& spaces,
               const GpuProfile& profile) {
  std::printf(
      "| Problem | Variants | Rank correlation | Regret of first 1 / 4 / 8 | Place of the best | "
      "Time predicted / measured | Scatter |\n|---|---|---|---|---|---|---|\n");
  Summary summary;
  for (const Space& space : spaces) {
    std::fputs(judge(space, profile, summary).c_str(), stdout);
  }
  print_summary(name, summary);
}

/// Judges each space by costs fitted to the spaces of the other groups.
template <typename Group>
void cross_validate(const std::string& name, const std::vector<Space>& spaces,
                    const GpuProfile& profile, const Options& options, Group group_of) {
  std::map<int, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    groups[group_of(i)].push_back(i);
  }
  Summary summary;
  for (const auto& [group, members] : groups) {
    Spaces others;
    for (std::size_t i = 0; i < spaces.size(); ++i) {
      if (group_of(i) != group) {
        others.push_back(&spaces[i]);
      }
    }
    const GpuProfile fitted = fit::fit(others, profile, options.fit);
    for (const std::size_t i : members) {
      judge(spaces[i], fitted, summary);
    }
  }
  print_summary(name, summary);
}

double three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return std::strtod(text, nullptr);
}

/// What was fitted to three digits, with where it comes from.
GpuProfile published(GpuProfile profile, std::size_t spaces, const Options& options) {
  const std::string source = "Fitted by fit_kernel_costs to " + std::to_string(spaces) +
                             " spaces of " + profile.device.name + " (docs/model.md)";
  if (options.fit.rounds > 0) {
    for (const KernelCost& cost : kKernelCosts) {
      profile.kernel.*cost.member = three_digits(profile.kernel.*cost.member);
      profile.sources[std::string(cost.name)] = source;
    }
  }
  if (options.fit.code_factors) {
    for (auto& [code, factor] : profile.code_factors) {
      factor = std::round(factor * 1000) / 1000;
    }
    profile.sources["code_factors"] = source;
  }
  return profile;
}

void run(const Options& options) {
  const GpuProfile start = load_profile(options.profile);
  std::vector<Space> spaces = fit::read_spaces(options.fit_files, start);
  const GpuProfile fitted =
      published(fit::fit(fit::all_of(spaces), start, options.fit), spaces.size(), options);
  for (const KernelCost& cost : kKernelCosts) {
    std::printf("%s: %.4g, before %.4g\n", std::string(cost.name).c_str(),
                fitted.kernel.*cost.member, start.kernel.*cost.member);
  }
  fit::walk_all(spaces, fitted);
  judge_all("Fit", spaces, fitted);
  if (!options.judge_files.empty()) {
    judge_all("Judged", fit::read_spaces(options.judge_files, fitted), fitted);
  }
  if (options.cross_validate) {
    cross_validate("Thirds of the spaces left out", spaces, start, options,
                   [](std::size_t i) { return static_cast<int>(i % 3); });
    cross_validate("Head_dims left out", spaces, start, options,
                   [&](std::size_t i) { return spaces[i].problem.head_dim; });
  }
  if (!options.out.empty()) {
    std::ofstream out(options.out);
    out << profile_text(fitted);
    if (!out.flush()) {
      throw Error(ErrorCode::unreadable,
                  options.out + " cannot be written; choose a file in a folder that exists");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Fits the costs of portable attention kernels to recorded spaces"};
  app.add_option("--fit", options.fit_files, "files of recorded spaces (.spaces) to fit to")
      ->required();
  app.add_option("--judge", options.judge_files, "files of recorded spaces that only judge");
  app.add_option("--profile", options.profile, "profile to start from: a name or a file");
  app.add_option("--out", options.out, "file for the profile with the fitted costs");
  app.add_option("--rounds", options.fit.rounds,
                 "rounds of least squares at most; 0 judges as it is");
  app.add_option("--keep", options.fit.kept, "costs that stay as the profile has them");
  app.add_flag("--beside-code-factors", options.fit.beside_code_factors,
               "fit costs to what the profile's code factors leave");
  app.add_flag("--code-factors", options.fit.code_factors,
               "also fit a factor for each main loop that the compiler made");
  app.add_flag("--cross-validate", options.cross_validate, "also judge what a fit left out");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "fit_kernel_costs: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
