// SPDX-License-Identifier: MIT
#include "tuner/search/residual_field.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace swr {
namespace {

/// Correlation of two variants that differ on one axis.
constexpr double kCorrelationPerAxis = 0.7;
/// Variance of what no other variant tells, as a share of the residuals' variance.
constexpr double kOwnShare = 0.05;

}  // namespace

ResidualField::Numbers ResidualField::numbers(const Variant& variant) {
  Numbers numbers;
  for (const Axis& axis : axes(variant.operation())) {
    const AxisValue value = axis.get(variant);
    const auto* const integer = std::get_if<long long>(&value);
    numbers.push_back(integer != nullptr
                          ? *integer
                          : std::ranges::find(axis.spellings, std::get<std::string>(value)) -
                                axis.spellings.begin());
  }
  return numbers;
}

ResidualField::ResidualField(const std::vector<Variant>& space) : variances_(space.size(), 1.0) {
  std::ranges::transform(space, std::back_inserter(space_), numbers);
}

double ResidualField::correlation(std::size_t a, std::size_t b) const {
  double correlation = 1.0;
  for (std::size_t axis = 0; axis < space_[a].size(); ++axis) {
    correlation *= space_[a][axis] == space_[b][axis] ? 1.0 : kCorrelationPerAxis;
  }
  return correlation;
}

/// One more row of the Cholesky decomposition.
void ResidualField::add(std::size_t place) {
  std::vector<double> row(space_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = correlation(i, place);
  }
  for (const std::vector<double>& earlier : rows_) {
    const double share = earlier[place];
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] -= share * earlier[i];
    }
  }
  const double pivot = std::sqrt(row[place] + kOwnShare);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] /= pivot;
    variances_[i] = std::max(0.0, variances_[i] - row[i] * row[i]);
  }
  rows_.push_back(std::move(row));
  added_.push_back(place);
  pivots_.push_back(pivot);
}

std::vector<double> ResidualField::expected(const std::vector<double>& residuals) const {
  const double mean = residuals.empty() ? 0.0
                                        : std::accumulate(residuals.begin(), residuals.end(), 0.0) /
                                              static_cast<double>(residuals.size());
  std::vector<double> expected(space_.size(), mean);
  std::vector<double> weights;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    double rest = residuals[i] - mean;
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      rest -= weights[earlier] * rows_[earlier][added_[i]];
    }
    weights.push_back(rest / pivots_[i]);
    for (std::size_t place = 0; place < expected.size(); ++place) {
      expected[place] += weights[i] * rows_[i][place];
    }
  }
  return expected;
}

double ResidualField::deviation(std::size_t place) const { return std::sqrt(variances_[place]); }

}  // namespace swr
