// SPDX-License-Identifier: MIT
#include "tuner/search/learned_field.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace swr {
namespace {

/// Variance of what no other variant tells, as a share of the field's.
constexpr double kOwnShare = 0.01;
/// How far apart two neighbouring values are at least, as a share of the axis.
constexpr double kStep = 0.15;
/// Those that are tried for an axis.
constexpr std::array kSensitivities{0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0};
constexpr double kUsualSensitivity = 0.5;
/// Standard deviation of the logarithm of sensitivities, before anything is known.
constexpr double kSensitivitySpread = 1.5;
/// How often all axes are gone through, one after the other.
constexpr int kSweeps = 2;

}  // namespace

AxisPlaces::AxisPlaces(const std::vector<Variant>& space) : size_(space.size()) {
  if (space.empty()) {
    return;
  }
  for (const Axis& axis : axes(space.front().operation())) {
    std::map<int, std::uint16_t> levels;
    for (const Variant& variant : space) {
      levels.emplace(axis.read(variant.members()), std::uint16_t{0});
    }
    if (levels.size() < 2) {
      continue;
    }
    std::uint16_t next = 0;
    for (auto& [value, level] : levels) {
      level = next++;
    }
    Column column{.is_ordered = !axis.is_text(), .levels = levels.size(), .level_of = {}};
    for (const Variant& variant : space) {
      column.level_of.push_back(levels.at(axis.read(variant.members())));
    }
    columns_.push_back(std::move(column));
  }
}

std::size_t AxisPlaces::differences(std::size_t a, std::size_t b) const {
  std::size_t differences = 0;
  for (const Column& column : columns_) {
    differences += column.level_of[a] != column.level_of[b] ? 1 : 0;
  }
  return differences;
}

LearnedField::LearnedField(const AxisPlaces& places)
    : places_(places), sensitivities_(places.columns().size(), kUsualSensitivity) {
  set_tables();
}

void LearnedField::set_tables() {
  tables_.resize(sensitivities_.size());
  for (std::size_t axis = 0; axis < tables_.size(); ++axis) {
    const auto& column = places_.columns()[axis];
    tables_[axis].resize(column.levels * column.levels);
    for (std::size_t a = 0; a < column.levels; ++a) {
      for (std::size_t b = 0; b < column.levels; ++b) {
        const double apart = std::abs(static_cast<double>(a) - static_cast<double>(b)) /
                             static_cast<double>(column.levels - 1);
        const double distance =
            a == b ? 0.0 : (column.is_ordered ? kStep + (1.0 - kStep) * apart : 1.0);
        tables_[axis][a * column.levels + b] =
            static_cast<float>(std::exp(-sensitivities_[axis] * distance));
      }
    }
  }
}

float LearnedField::correlation(std::size_t a, std::size_t b) const {
  float correlation = 1.0F;
  for (std::size_t axis = 0; axis < tables_.size(); ++axis) {
    const auto& column = places_.columns()[axis];
    correlation *= tables_[axis][column.level_of[a] * column.levels + column.level_of[b]];
  }
  return correlation;
}

double LearnedField::log_likelihood(std::span<const KnownTime> known) const {
  const std::size_t n = known.size();
  std::vector<std::vector<float>> factor(n);
  double mean = 0.0;
  for (const KnownTime& time : known) {
    mean += time.log_time / static_cast<double>(n);
  }
  std::vector<double> weights(n);
  double log_determinant = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    factor[i].resize(i + 1);
    for (std::size_t j = 0; j <= i; ++j) {
      float rest = correlation(known[i].place, known[j].place);
      for (std::size_t k = 0; k < j; ++k) {
        rest -= factor[i][k] * factor[j][k];
      }
      factor[i][j] = i == j ? std::sqrt(std::max(1e-6F, rest + static_cast<float>(kOwnShare)))
                            : rest / factor[j][j];
    }
    double rest = known[i].log_time - mean;
    for (std::size_t k = 0; k < i; ++k) {
      rest -= static_cast<double>(factor[i][k]) * weights[k];
    }
    weights[i] = rest / static_cast<double>(factor[i][i]);
    log_determinant += std::log(static_cast<double>(factor[i][i]));
    sum += weights[i] * weights[i];
  }
  return -0.5 * static_cast<double>(n) * std::log(std::max(sum, 1e-12) / static_cast<double>(n)) -
         log_determinant;
}

double LearnedField::log_posterior(std::span<const KnownTime> known) const {
  double value = log_likelihood(known);
  for (const double sensitivity : sensitivities_) {
    const double off = std::log(sensitivity / kUsualSensitivity) / kSensitivitySpread;
    value -= 0.5 * off * off;
  }
  return value;
}

void LearnedField::learn(std::span<const KnownTime> known) {
  double best = log_posterior(known);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (double& sensitivity : sensitivities_) {
      double chosen = sensitivity;
      for (const double tried : kSensitivities) {
        sensitivity = tried;
        set_tables();
        const double value = log_posterior(known);
        if (value > best) {
          best = value;
          chosen = tried;
        }
      }
      sensitivity = chosen;
    }
  }
  set_tables();
}

void LearnedField::look_at(std::span<const KnownTime> known,
                           std::span<const std::size_t> candidates) {
  candidates_.assign(candidates.begin(), candidates.end());
  added_.clear();
  rows_.clear();
  factor_.clear();
  weights_.clear();
  means_.assign(candidates_.size(), 0.0);
  variances_.assign(candidates_.size(), 1.0F);
  before_beliefs_ = kNoBeliefs;
  mean_ = 0.0;
  for (const KnownTime& time : known) {
    mean_ += time.log_time / static_cast<double>(known.size());
  }
  for (const KnownTime& time : known) {
    add(time);
  }
}

void LearnedField::add(const KnownTime& known) {
  add_row(known.place, known.log_time - mean_);
  scale_ = std::sqrt(std::inner_product(weights_.begin(), weights_.end(), weights_.begin(), 1e-8) /
                     static_cast<double>(weights_.size()));
}

void LearnedField::believe(std::size_t candidate) {
  if (before_beliefs_ == kNoBeliefs) {
    before_beliefs_ = added_.size();
    variances_before_ = variances_;
  }
  add_row(candidates_[candidate], means_[candidate]);
}

void LearnedField::forget_beliefs() {
  if (before_beliefs_ == kNoBeliefs) {
    return;
  }
  added_.resize(before_beliefs_);
  rows_.resize(before_beliefs_);
  factor_.resize(before_beliefs_);
  weights_.resize(before_beliefs_);
  variances_ = variances_before_;  // A belief leaves the means as they are.
  before_beliefs_ = kNoBeliefs;
}

void LearnedField::add_row(std::size_t place, double centred) {
  const std::size_t n = added_.size();
  std::vector<float> own(n + 1);
  double rest = centred;
  float pivot = 1.0F + static_cast<float>(kOwnShare);
  for (std::size_t j = 0; j < n; ++j) {
    float value = correlation(place, added_[j]);
    for (std::size_t k = 0; k < j; ++k) {
      value -= own[k] * factor_[j][k];
    }
    own[j] = value / factor_[j][j];
    pivot -= own[j] * own[j];
    rest -= static_cast<double>(own[j]) * weights_[j];
  }
  own[n] = std::sqrt(std::max(1e-6F, pivot));
  const double weight = rest / static_cast<double>(own[n]);

  std::vector<float> row(candidates_.size(), 1.0F);
  for (std::size_t axis = 0; axis < tables_.size(); ++axis) {
    const auto& column = places_.columns()[axis];
    const float* const table = &tables_[axis][column.level_of[place] * column.levels];
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] *= table[column.level_of[candidates_[i]]];
    }
  }
  for (std::size_t j = 0; j < n; ++j) {
    const float share = own[j];
    const float* const earlier = rows_[j].data();
    float* const values = row.data();
    for (std::size_t i = 0; i < row.size(); ++i) {
      values[i] -= share * earlier[i];
    }
  }
  const float inverse = 1.0F / own[n];
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] *= inverse;
    variances_[i] = std::max(0.0F, variances_[i] - row[i] * row[i]);
    means_[i] += weight * static_cast<double>(row[i]);
  }
  added_.push_back(place);
  factor_.push_back(std::move(own));
  rows_.push_back(std::move(row));
  weights_.push_back(weight);
}

double LearnedField::deviation(std::size_t candidate) const {
  return scale_ * std::sqrt(static_cast<double>(variances_[candidate]));
}

namespace {

/// Correlation of two variants that differ on one axis.
constexpr double kCorrelationPerAxis = 0.7;
/// Variance of what no other variant tells, as a share of the residuals' variance.
constexpr double kOwnShareOfResiduals = 0.05;

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
  std::ranges::transform(space, std::back_inserter(families_), family_of);
}

double ResidualField::correlation(std::size_t a, std::size_t b) const {
  double correlation = families_[a] == families_[b] ? 1.0 : 0.0;
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
  const double pivot = std::sqrt(row[place] + kOwnShareOfResiduals);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] /= pivot;
    variances_[i] = std::max(0.0, variances_[i] - row[i] * row[i]);
  }
  rows_.push_back(std::move(row));
  added_.push_back(place);
  pivots_.push_back(pivot);
}

std::map<Family, double> ResidualField::means(const std::vector<double>& residuals) const {
  std::map<Family, double> sums;
  std::map<Family, double> counts;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    sums[families_[added_[i]]] += residuals[i];
    ++counts[families_[added_[i]]];
  }
  for (auto& [family, sum] : sums) {
    sum /= counts.at(family);
  }
  return sums;
}

std::vector<double> ResidualField::weights(const std::vector<double>& residuals) const {
  const std::map<Family, double> means = this->means(residuals);
  std::vector<double> weights;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    double rest = residuals[i] - means.at(families_[added_[i]]);
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      rest -= weights[earlier] * rows_[earlier][added_[i]];
    }
    weights.push_back(rest / pivots_[i]);
  }
  return weights;
}

std::vector<double> ResidualField::expected(const std::vector<double>& residuals) const {
  std::map<Family, double> means = this->means(residuals);
  std::vector<double> expected;
  for (const Family family : families_) {
    expected.push_back(means[family]);
  }
  const std::vector<double> weights = this->weights(residuals);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t place = 0; place < expected.size(); ++place) {
      expected[place] += weights[i] * rows_[i][place];
    }
  }
  return expected;
}

double ResidualField::scale(const std::vector<double>& residuals, double guess) const {
  const std::vector<double> weights = this->weights(residuals);
  const double squares =
      std::inner_product(weights.begin(), weights.end(), weights.begin(), guess * guess);
  return std::sqrt(squares / static_cast<double>(1 + weights.size()));
}

double ResidualField::deviation(std::size_t place) const { return std::sqrt(variances_[place]); }

double ResidualField::whole_deviation(std::size_t place) const {
  return std::sqrt(variances_[place] + kOwnShare);
}

}  // namespace swr
