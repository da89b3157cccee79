// SPDX-License-Identifier: MIT
#include "experiments/kernel_costs/fitting.h"

#include "operations/attention/model/time.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <unsupported/Eigen/NonLinearOptimization>
#include <unsupported/Eigen/NumericalDiff>
#include <utility>
#include <vector>

namespace swr::fit {
namespace {

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

/// A weighted mean that grows.
struct Mean {
  double weights = 0.0;
  double sum = 0.0;

  void add(double value, double weight) {
    weights += weight;
    sum += weight * value;
  }
  double value() const { return sum / weights; }
};

/// What least squares make small, as functions of 1 + log(cost / cost of the profile) of each cost,
/// which keeps costs positive and makes their steps alike.
class Residuals {
 public:
  using Scalar = double;
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };

  /// Costs named in `kept` are no inputs.
  Residuals(Spaces spaces, GpuProfile profile, const std::vector<std::string>& kept)
      : spaces_(std::move(spaces)), start_(std::move(profile)) {
    std::ranges::copy_if(kKernelCosts, std::back_inserter(costs_), [&](const KernelCost& cost) {
      return std::ranges::find(kept, cost.name) == kept.end();
    });
    for (const Space* space : spaces_) {
      rows_ += static_cast<int>(space->rows.size());
    }
  }

  int inputs() const { return static_cast<int>(costs_.size()); }
  int values() const { return rows_; }

  GpuProfile at(const InputType& x) const {
    GpuProfile profile = start_;
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      profile.kernel.*costs_[i].member *= std::exp(x[static_cast<Eigen::Index>(i)] - 1);
    }
    profile.kernel.younger_share = std::min(1.0, profile.kernel.younger_share);
    return profile;
  }

  int operator()(const InputType& x, ValueType& residuals) const;

 private:
  Spaces spaces_;
  GpuProfile start_;
  std::vector<KernelCost> costs_;  ///< Those that are fitted.
  int rows_ = 0;
};

int Residuals::operator()(const InputType& x, ValueType& residuals) const {
  // What a space's times have in common does not rank them.
  constexpr double kForgiven = 0.7;
  const Eigen::VectorXd predicted_us = predict(spaces_, at(x));
  Eigen::Index begin = 0;
  for (const Space* space : spaces_) {
    Mean common;
    for (std::size_t i = 0; i < space->rows.size(); ++i) {
      const Row& row = space->rows[i];
      const auto at = begin + static_cast<Eigen::Index>(i);
      residuals[at] = std::log(predicted_us[at] / row.measured_us);
      common.add(residuals[at], row.weight);
    }
    for (const Row& row : space->rows) {
      residuals[begin] =
          std::sqrt(row.weight) * (residuals[begin] - kForgiven * common.sum / common.weights);
      ++begin;
    }
  }
  return 0;
}

/// The profile with the costs that least squares find from its own within `rounds`; code factors
/// are none of them, and stay as they are or count as 1.
GpuProfile fit_costs(const Spaces& whole_spaces, GpuProfile profile, const FitOptions& options) {
  if (!options.beside_code_factors) {
    profile.code_factors.clear();
  }
  std::vector<Space> thin;
  for (const Space* space : whole_spaces) {
    thin.push_back(thinned(*space));
  }
  const Spaces spaces = all_of(thin);
  constexpr double kDifference = 1e-2;  ///< Relative, for derivatives.
  constexpr double kFirstStep = 0.1;    ///< Relative bound.
  Eigen::NumericalDiff<Residuals> residuals(Residuals(spaces, profile, options.kept),
                                            kDifference * kDifference);
  Eigen::LevenbergMarquardt<Eigen::NumericalDiff<Residuals>> solver(residuals);
  solver.parameters.factor = kFirstStep;
  solver.parameters.ftol = solver.parameters.xtol = 1e-4;
  Eigen::VectorXd x = Eigen::VectorXd::Ones(residuals.inputs());
  solver.minimizeInit(x);
  for (int round = 0; round < options.rounds; ++round) {
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
    Mean common;
    for (std::size_t j = 0; j < space.rows.size(); ++j) {
      const Row& row = space.rows[j];
      const double log_ratio =
          std::log(row.measured_us / predicted_us[static_cast<Eigen::Index>(j)]);
      all.push_back({i, kernel_code(space.problem.head_dim, row.variant), row.weight, log_ratio});
      common.add(log_ratio, row.weight);
    }
    for (std::size_t j = begin; j < all.size(); ++j) {
      all[j].log_ratio -= common.value();
    }
  }
  return all;
}

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
    groups[group.first].add(mean.value(), std::min(1.0, mean.weights / kFullSay));
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

}  // namespace

GpuProfile fit(const Spaces& spaces, const GpuProfile& profile, const FitOptions& options) {
  const GpuProfile fitted = options.rounds == 0 ? profile : fit_costs(spaces, profile, options);
  return options.code_factors ? with_code_factors(spaces, fitted) : fitted;
}

}  // namespace swr::fit
