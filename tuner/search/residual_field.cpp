// SPDX-License-Identifier: MIT
#include "tuner/search/residual_field.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace swr {
namespace {

/// Correlation of two variants that differ on one axis.
constexpr double kCorrelationPerAxis = 0.7;
/// Variance of what no other variant tells, as a share of the residuals' variance.
constexpr double kOwnShare = 0.05;

using Matrix = std::vector<std::vector<double>>;

double correlation(const Variant& a, const Variant& b) {
  int differing = 0;
  for (const Axis& axis : axes()) {
    differing += axis.get(a) == axis.get(b) ? 0 : 1;
  }
  return std::pow(kCorrelationPerAxis, differing);
}

/// Lower factor L of L L^T. Requires: a symmetric positive definite matrix.
Matrix cholesky(Matrix a) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    for (std::size_t i = j; i < a.size(); ++i) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) {
        sum -= a[i][k] * a[j][k];
      }
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  return a;
}

/// Solves L L^T x = b.
std::vector<double> solve(const Matrix& lower, std::vector<double> x) {
  const std::size_t size = x.size();
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      x[i] -= lower[i][k] * x[k];
    }
    x[i] /= lower[i][i];
  }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t k = i + 1; k < size; ++k) {
      x[i] -= lower[k][i] * x[k];
    }
    x[i] /= lower[i][i];
  }
  return x;
}

}  // namespace

ResidualField::ResidualField(std::vector<Variant> variants, const std::vector<double>& residuals)
    : variants_(std::move(variants)) {
  if (variants_.empty()) {
    return;
  }
  mean_ = std::accumulate(residuals.begin(), residuals.end(), 0.0) /
          static_cast<double>(residuals.size());
  Matrix covariance(variants_.size(), std::vector<double>(variants_.size()));
  std::vector<double> centred;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    centred.push_back(residuals[i] - mean_);
    for (std::size_t j = 0; j < variants_.size(); ++j) {
      covariance[i][j] = correlation(variants_[i], variants_[j]) + (i == j ? kOwnShare : 0.0);
    }
  }
  weights_ = solve(cholesky(std::move(covariance)), std::move(centred));
}

double ResidualField::at(const Variant& variant) const {
  double residual = mean_;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    residual += weights_[i] * correlation(variants_[i], variant);
  }
  return residual;
}

}  // namespace swr
