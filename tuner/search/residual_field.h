// SPDX-License-Identifier: MIT
// How far a model is off, learnt from a few measurements and carried over to similar variants, and
// how much of that is still unknown.
#pragma once

#include <swr/variant.h>

#include <cstddef>
#include <vector>

namespace swr {

/// A Gaussian process over the variants of a space: the residuals (log measured over predicted) of
/// two variants correlate by a constant factor for every axis on which they differ.
class ResidualField {
 public:
  explicit ResidualField(const std::vector<Variant>& space);

  /// Counts a variant among the measured, by its place in the space. What stays unknown of the
  /// others does not depend on what is found there. Requires: no place twice.
  void add(std::size_t place);

  /// The residual to expect at each place, given those of the variants first added, in that order.
  /// Without any it is 0 everywhere. Requires: no more than were added.
  std::vector<double> expected(const std::vector<double>& residuals) const;

  /// Standard deviation of a variant's residual, given those added; 1 without any.
  double deviation(std::size_t place) const;

 private:
  /// The axes as numbers: integers as they are, spellings by their place.
  using Numbers = std::vector<long long>;

  static Numbers numbers(const Variant& variant);
  double correlation(std::size_t a, std::size_t b) const;

  std::vector<Numbers> space_;
  /// The Cholesky factor, continued over the whole space: [added][place].
  std::vector<std::vector<double>> rows_;
  std::vector<std::size_t> added_;
  std::vector<double> pivots_;
  std::vector<double> variances_;
};

}  // namespace swr
