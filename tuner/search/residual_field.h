// SPDX-License-Identifier: MIT
// How far a model is off, learnt from a few measurements and carried over to similar variants.
#pragma once

#include <swr/variant.h>

#include <vector>

namespace swr {

/// A Gaussian process over variants: the residuals (log measured over predicted) of two variants
/// correlate by a constant factor for every axis on which they differ.
class ResidualField {
 public:
  /// Without measurements the expected residual is 0 everywhere.
  ResidualField() = default;

  /// Requires: one residual per variant.
  ResidualField(std::vector<Variant> variants, const std::vector<double>& residuals);

  /// The residual to expect at a variant.
  double at(const Variant& variant) const;

 private:
  std::vector<Variant> variants_;
  std::vector<double> weights_;
  double mean_ = 0.0;
};

}  // namespace swr
