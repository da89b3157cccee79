// SPDX-License-Identifier: MIT
// Fits what the instructions of the portable attention kernels cost (KernelCosts), and what the
// compiler made of each main loop beside them, to recorded spaces, and says how well the model then
// chooses: in those spaces, in the same when their shapes are left out of the fit, and in others.
// docs/model.md says how the costs of the profiles were found with it and how to fit those of
// another GPU.
#include "core/recorded_space.h"
#include "tuner/model/accuracy.h"
#include "tuner/model/l2_model.h"
#include "tuner/model/shortlist.h"
#include "tuner/model/time_model.h"
#include <swr/constraints.h>
#include <swr/error.h>

#include <CLI/CLI.hpp>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <unsupported/Eigen/NonLinearOptimization>
#include <unsupported/Eigen/NumericalDiff>
#include <vector>

namespace {

using namespace swr;

struct Options {
  std::vector<std::string> fit_folders;
  std::vector<std::string> judge_folders;
  std::string profile = "h200";
  std::string out;
  int rounds = 10;
  bool code_factors = false;
  bool cross_validate = false;
};

/// A measured variant and all that its predicted time is made of beside the costs.
struct Row {
  AttentionVariant variant;
  KernelResources resources;
  int ctas_per_sm = 0;
  double measured_us = 0.0;
  double weight = 0.0;
  ScheduleShape shape;
  L2Traffic traffic;
};

struct Space {
  std::string name;
  AttentionProblem problem;
  std::vector<Row> rows;
};

/// Variants near the best decide which is chosen; the others keep the form honest.
double weight(double measured_us, double best_us) {
  constexpr double kNear = 0.05;
  constexpr double kLeast = 0.012;
  return std::exp(-(measured_us / best_us - 1) / kNear) + kLeast;
}

/// Walks each schedule through L2 as long as the profile's costs make its steps.
void walk(Space& space, const GpuProfile& profile) {
  std::map<ScheduleShape, L2Traffic> walks;
  for (Row& row : space.rows) {
    row.shape = schedule_on_gpu(space.problem, row.variant, row.ctas_per_sm, profile);
    const auto [entry, is_new] = walks.try_emplace(row.shape);
    if (is_new) {
      entry->second = simulate_l2(row.shape, profile.l2_policy());
    }
    row.traffic = entry->second;
  }
}

Space read_space(const std::filesystem::path& file, const GpuProfile& profile) {
  const RecordedSpace recorded = read_recorded_space(file);
  const auto* problem = std::get_if<AttentionProblem>(&recorded.problem);
  if (problem == nullptr || !same_device(recorded.device, profile.device)) {
    throw Error(ErrorCode::unreadable, file.string() + " is no space of attention on " +
                                           profile.device.name +
                                           "; take it away, or name that GPU's profile");
  }
  Space space{.name = to_string(recorded.problem), .problem = *problem, .rows = {}};
  for (const VariantResult& result : recorded.results) {
    const auto& variant = std::get<AttentionVariant>(result.variant);
    if (result.state == ResultState::ok && variant.family == Family::portable) {
      space.rows.push_back({.variant = variant,
                            .resources = result.resources,
                            .ctas_per_sm = occupancy(result.resources, recorded.problem,
                                                     result.variant, profile.device)
                                               .ctas_per_sm,
                            .measured_us = result.time_us(),
                            .weight = weight(result.time_us(), recorded.best_us())});
    }
  }
  return space;
}

/// Spreads calls of `work` for 0 to `count` - 1 over the cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (std::size_t first = 0; first < threads; ++first) {
    pool.emplace_back([&, first] {
      for (std::size_t i = first; i < count; i += threads) {
        work(i);
      }
    });
  }
}

std::vector<Space> read_spaces(const std::vector<std::string>& folders, const GpuProfile& profile) {
  std::vector<std::filesystem::path> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Space> spaces;
  for (const auto& file : files) {
    spaces.push_back(read_space(file, profile));
  }
  in_parallel(spaces.size(), [&](std::size_t i) { walk(spaces[i], profile); });
  return spaces;
}

/// Far from the best every fifth variant stands for five: a fit takes a third of the time.
Space thinned(const Space& space) {
  constexpr double kFar = 0.06;
  constexpr std::size_t kOneOf = 5;
  Space thin{.name = space.name, .problem = space.problem, .rows = {}};
  std::size_t far = 0;
  for (const Row& row : space.rows) {
    if (row.weight > kFar) {
      thin.rows.push_back(row);
    } else if (far++ % kOneOf == 0) {
      thin.rows.push_back(row);
      thin.rows.back().weight *= kOneOf;
    }
  }
  return thin;
}

using Spaces = std::vector<const Space*>;

Spaces all_of(const std::vector<Space>& spaces) {
  Spaces all;
  for (const Space& space : spaces) {
    all.push_back(&space);
  }
  return all;
}

/// Predicted times, space after space.
Eigen::VectorXd predict(const Spaces& spaces, const GpuProfile& profile) {
  std::vector<std::pair<const Space*, const Row*>> rows;
  for (const Space* space : spaces) {
    for (const Row& row : space->rows) {
      rows.emplace_back(space, &row);
    }
  }
  Eigen::VectorXd times_us(static_cast<Eigen::Index>(rows.size()));
  in_parallel(rows.size(), [&](std::size_t i) {
    const auto& [space, row] = rows[i];
    times_us[static_cast<Eigen::Index>(i)] =
        predict_time(space->problem, row->variant, row->resources, row->shape, row->traffic,
                     profile)
            .time_us;
  });
  return times_us;
}

/// What least squares make small, as functions of 1 + log(cost / cost of the profile) of each cost,
/// which keeps costs positive and makes their steps alike.
class Residuals {
 public:
  using Scalar = double;
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };

  Residuals(Spaces spaces, GpuProfile profile)
      : spaces_(std::move(spaces)), start_(std::move(profile)) {
    for (const Space* space : spaces_) {
      rows_ += static_cast<int>(space->rows.size());
    }
  }

  int inputs() const { return static_cast<int>(kKernelCosts.size()); }
  int values() const { return rows_; }

  GpuProfile at(const InputType& x) const {
    GpuProfile profile = start_;
    for (std::size_t i = 0; i < kKernelCosts.size(); ++i) {
      profile.kernel.*kKernelCosts[i].member *= std::exp(x[static_cast<Eigen::Index>(i)] - 1);
    }
    profile.kernel.younger_share = std::min(1.0, profile.kernel.younger_share);
    return profile;
  }

  int operator()(const InputType& x, ValueType& residuals) const;

 private:
  Spaces spaces_;
  GpuProfile start_;
  int rows_ = 0;
};

int Residuals::operator()(const InputType& x, ValueType& residuals) const {
  // What a space's times have in common does not rank them.
  constexpr double kForgiven = 0.7;
  const Eigen::VectorXd predicted_us = predict(spaces_, at(x));
  Eigen::Index begin = 0;
  for (const Space* space : spaces_) {
    double weights = 0.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < space->rows.size(); ++i) {
      const Row& row = space->rows[i];
      const auto at = begin + static_cast<Eigen::Index>(i);
      residuals[at] = std::log(predicted_us[at] / row.measured_us);
      weights += row.weight;
      sum += row.weight * residuals[at];
    }
    for (const Row& row : space->rows) {
      residuals[begin] = std::sqrt(row.weight) * (residuals[begin] - kForgiven * sum / weights);
      ++begin;
    }
  }
  return 0;
}

/// The profile with the costs that least squares find from its own within `rounds`; code factors
/// are none of them.
GpuProfile fit_costs(const Spaces& whole_spaces, GpuProfile profile, int rounds) {
  profile.code_factors.clear();
  std::vector<Space> thin;
  for (const Space* space : whole_spaces) {
    thin.push_back(thinned(*space));
  }
  const Spaces spaces = all_of(thin);
  constexpr double kDifference = 1e-2;  ///< Relative, for derivatives.
  constexpr double kFirstStep = 0.1;    ///< Relative bound.
  Eigen::NumericalDiff<Residuals> residuals(Residuals(spaces, profile), kDifference * kDifference);
  Eigen::LevenbergMarquardt<Eigen::NumericalDiff<Residuals>> solver(residuals);
  solver.parameters.factor = kFirstStep;
  solver.parameters.ftol = solver.parameters.xtol = 1e-4;
  Eigen::VectorXd x = Eigen::VectorXd::Ones(residuals.inputs());
  solver.minimizeInit(x);
  for (int round = 0; round < rounds; ++round) {
    if (solver.minimizeOneStep(x) != Eigen::LevenbergMarquardtSpace::Running) {
      break;
    }
    std::fprintf(stderr, "round %d: sum of squares %.5f\n", round + 1, solver.fnorm * solver.fnorm);
  }
  return residuals.at(x);
}

/// What remains between a measured and a predicted time, beside what its space has in common.
struct Remainder {
  std::size_t space = 0;
  KernelCode code;
  double weight = 0.0;
  double log_ratio = 0.0;
};

std::vector<Remainder> remainders(const Spaces& spaces, const GpuProfile& profile) {
  std::vector<Remainder> all;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const Space& space = *spaces[i];
    const Eigen::VectorXd predicted_us = predict({&space}, profile);
    const std::size_t begin = all.size();
    double weights = 0.0;
    double sum = 0.0;
    for (std::size_t j = 0; j < space.rows.size(); ++j) {
      const Row& row = space.rows[j];
      const double log_ratio =
          std::log(row.measured_us / predicted_us[static_cast<Eigen::Index>(j)]);
      all.push_back({i, kernel_code(space.problem.head_dim, row.variant), row.weight, log_ratio});
      weights += row.weight;
      sum += row.weight * log_ratio;
    }
    for (std::size_t j = begin; j < all.size(); ++j) {
      all[j].log_ratio -= sum / weights;
    }
  }
  return all;
}

struct Mean {
  double weights = 0.0;
  double sum = 0.0;

  void add(double value, double weight) {
    weights += weight;
    sum += weight * value;
  }
};

/// Mean remainder of each group of codes over the spaces, as if one more space had none. A space
/// has a full say with one variant of the group within 3.5 % of its best, or several further off.
template <typename GroupOf>
std::map<KernelCode, double> mean_remainders(const std::vector<Remainder>& all, GroupOf group_of) {
  constexpr double kFullSay = 0.5;
  std::map<std::pair<KernelCode, std::size_t>, Mean> by_space;
  for (const Remainder& one : all) {
    by_space[{group_of(one.code), one.space}].add(one.log_ratio, one.weight);
  }
  std::map<KernelCode, Mean> groups;
  for (const auto& [group, mean] : by_space) {
    groups[group.first].add(mean.sum / mean.weights, std::min(1.0, mean.weights / kFullSay));
  }
  std::map<KernelCode, double> means;
  for (const auto& [group, mean] : groups) {
    means[group] = mean.sum / (mean.weights + 1);
  }
  return means;
}

KernelCode either_order(KernelCode code) {
  code.order = Order::cyclic;
  return code;
}

/// The profile with a factor for each code of the spaces: what its tile and stages have in common
/// in either order, then what remains for its order.
GpuProfile with_code_factors(const Spaces& spaces, GpuProfile profile) {
  profile.code_factors.clear();
  std::vector<Remainder> all = remainders(spaces, profile);
  const auto tiles = mean_remainders(all, either_order);
  for (Remainder& one : all) {
    one.log_ratio -= tiles.at(either_order(one.code));
  }
  for (const auto& [code, log_ratio] : mean_remainders(all, [](KernelCode code) { return code; })) {
    profile.code_factors[code] = std::exp(tiles.at(either_order(code)) + log_ratio);
  }
  return profile;
}

GpuProfile fit(const Spaces& spaces, const GpuProfile& profile, const Options& options) {
  const GpuProfile fitted =
      options.rounds == 0 ? profile : fit_costs(spaces, profile, options.rounds);
  return options.code_factors ? with_code_factors(spaces, fitted) : fitted;
}

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
};

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
  const Eigen::VectorXd predicted_us = predict({&space}, profile);
  std::vector<Comparison> rows;
  for (std::size_t i = 0; i < space.rows.size(); ++i) {
    rows.push_back({.variant = space.rows[i].variant,
                    .measured_us = space.rows[i].measured_us,
                    .predicted_us = predicted_us[static_cast<Eigen::Index>(i)]});
  }
  const Accuracy accuracy = assess(rows);
  const double scatter = scatter_near_best(rows);
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
    const GpuProfile fitted = fit(others, profile, options);
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
  const std::string source = "Fitted by bench/fit_kernel_costs to " + std::to_string(spaces) +
                             " spaces of " + profile.device.name + " (docs/model.md)";
  if (options.rounds > 0) {
    for (const KernelCost& cost : kKernelCosts) {
      profile.kernel.*cost.member = three_digits(profile.kernel.*cost.member);
      profile.sources[std::string(cost.name)] = source;
    }
  }
  if (options.code_factors) {
    for (auto& [code, factor] : profile.code_factors) {
      factor = std::round(factor * 1000) / 1000;
    }
    profile.sources["code_factors"] = source;
  }
  return profile;
}

void run(const Options& options) {
  const GpuProfile start = load_profile(options.profile);
  std::vector<Space> spaces = read_spaces(options.fit_folders, start);
  const GpuProfile fitted = published(fit(all_of(spaces), start, options), spaces.size(), options);
  for (const KernelCost& cost : kKernelCosts) {
    std::printf("%s: %.4g, before %.4g\n", std::string(cost.name).c_str(),
                fitted.kernel.*cost.member, start.kernel.*cost.member);
  }
  in_parallel(spaces.size(), [&](std::size_t i) { walk(spaces[i], fitted); });
  judge_all("Fit", spaces, fitted);
  if (!options.judge_folders.empty()) {
    judge_all("Judged", read_spaces(options.judge_folders, fitted), fitted);
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
  app.add_option("--fit", options.fit_folders, "folders of recorded spaces to fit to")->required();
  app.add_option("--judge", options.judge_folders, "folders of recorded spaces that only judge");
  app.add_option("--profile", options.profile, "profile to start from: a name or a file");
  app.add_option("--out", options.out, "file for the profile with the fitted costs");
  app.add_option("--rounds", options.rounds, "rounds of least squares at most; 0 judges as it is");
  app.add_flag("--code-factors", options.code_factors,
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
