// SPDX-License-Identifier: MIT
// What is known of the times of a space where nothing predicts them: a Gaussian process over the
// axes' values that learns from the measured times how much each axis matters.
#pragma once

#include <swr/variant.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace swr {

/// The variants of a space as places on axes. Values that are numbers lie in their order on an
/// axis, evenly spaced between 0 and 1; of others each is as far from all the rest.
class AxisPlaces {
 public:
  explicit AxisPlaces(const std::vector<Variant>& space);

  struct Column {
    bool is_ordered = false;
    std::size_t levels = 0;
    std::vector<std::uint16_t> level_of;  ///< [variant]
  };

  /// Axes on which the variants differ.
  const std::vector<Column>& columns() const { return columns_; }
  std::size_t size() const { return size_; }
  /// On how many axes two variants differ.
  std::size_t differences(std::size_t a, std::size_t b) const;

 private:
  std::vector<Column> columns_;
  std::size_t size_ = 0;
};

/// A measured variant, by its place in the space, with the logarithm of its time.
struct KnownTime {
  std::size_t place = 0;
  double log_time = 0.0;
};

/// The correlation of two variants is the product over the axes of exp(-sensitivity * distance).
/// Sensitivities are those under which the known times are most likely.
class LearnedField {
 public:
  explicit LearnedField(const AxisPlaces& places);

  /// Learns the sensitivities anew. Requires: two times that differ.
  void learn(std::span<const KnownTime> known);

  /// Prepares answers for the candidates, by place, from the known times.
  void look_at(std::span<const KnownTime> known, std::span<const std::size_t> candidates);

  /// One more known time.
  void add(const KnownTime& known);

  /// Treats a candidate as known to have the time that is expected of it.
  void believe(std::size_t candidate);
  /// Takes back what was believed.
  void forget_beliefs();

  // Of a candidate, by its index among those looked at.
  double expected(std::size_t candidate) const { return mean_ + means_[candidate]; }
  double deviation(std::size_t candidate) const;

 private:
  static constexpr std::size_t kNoBeliefs = static_cast<std::size_t>(-1);

  void set_tables();
  /// Up to a constant: of the times, the field's own scale being the one that suits them best.
  double log_likelihood(std::span<const KnownTime> known) const;
  /// With what is usual of sensitivities.
  double log_posterior(std::span<const KnownTime> known) const;
  float correlation(std::size_t a, std::size_t b) const;
  void add_row(std::size_t place, double centred);

  const AxisPlaces& places_;
  std::vector<double> sensitivities_;       ///< [axis]
  std::vector<std::vector<float>> tables_;  ///< Correlations: [axis][level * levels + level]
  std::vector<std::size_t> candidates_;
  std::vector<std::size_t> added_;          ///< Places whose times are known.
  std::vector<std::vector<float>> rows_;    ///< Cholesky factor over the candidates: [added][..]
  std::vector<std::vector<float>> factor_;  ///< The same over what was added: lower triangle.
  std::vector<double> weights_;             ///< The factor's inverse times what was found.
  std::vector<double> means_;
  std::vector<float> variances_;
  std::vector<float> variances_before_;
  std::size_t before_beliefs_ = kNoBeliefs;  ///< How many were known before the first belief.
  double mean_ = 0.0;
  double scale_ = 1.0;  ///< Standard deviation of logarithms of times.
};

// How far a model is off, learnt from a few measurements and carried over to similar variants, and
// how much of that is still unknown.

/// A Gaussian process over the variants of a space: the residuals (log measured over predicted) of
/// two variants of a family correlate by a constant factor for every axis on which they differ.
/// Each family has a model of its own, whose errors say nothing of another's.
class ResidualField {
 public:
  explicit ResidualField(const std::vector<Variant>& space);

  /// Counts a variant among the measured, by its place in the space. What stays unknown of the
  /// others does not depend on what is found there. Requires: no place twice.
  void add(std::size_t place);

  /// The residual to expect at each place, given those of the variants first added, in that order;
  /// 0 where none is of its family. Requires: no more than were added.
  std::vector<double> expected(const std::vector<double>& residuals) const;

  /// Standard deviation of the residuals before any was known, by those of the variants first
  /// added; a guess counts as one of them. Requires: as expected().
  double scale(const std::vector<double>& residuals, double guess) const;

  /// Standard deviation of a variant's residual, given those added; 1 without any.
  double deviation(std::size_t place) const;
  /// The same with what no other variant tells.
  double whole_deviation(std::size_t place) const;

 private:
  /// The axes as numbers: integers as they are, spellings by their place.
  using Numbers = std::vector<long long>;

  static Numbers numbers(const Variant& variant);
  /// Of each family's residuals.
  std::map<Family, double> means(const std::vector<double>& residuals) const;
  double correlation(std::size_t a, std::size_t b) const;
  /// What each of the residuals adds to those before it, of unit variance where the scale is 1.
  std::vector<double> weights(const std::vector<double>& residuals) const;

  std::vector<Numbers> space_;
  std::vector<Family> families_;
  /// The Cholesky factor, continued over the whole space: [added][place].
  std::vector<std::vector<double>> rows_;
  std::vector<std::size_t> added_;
  std::vector<double> pivots_;
  std::vector<double> variances_;
};

}  // namespace swr
