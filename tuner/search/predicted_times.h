// SPDX-License-Identifier: MIT
// Predicted times of a space, of which those that take long are made only where they are asked for.
#pragma once

#include <swr/variant.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace swr {

/// Times in microseconds by place in the space; infinity for a variant that cannot run.
class PredictedTimes {
 public:
  /// Times that are known.
  explicit PredictedTimes(std::vector<double> times_us)
      : at_least_us_(std::move(times_us)), is_known_(at_least_us_.size(), true) {}
  virtual ~PredictedTimes() = default;
  PredictedTimes(const PredictedTimes&) = delete;
  PredictedTimes& operator=(const PredictedTimes&) = delete;

  /// The times, or where they are not known what they do not go below.
  const std::vector<double>& at_least_us() const { return at_least_us_; }
  bool is_known(std::size_t place) const { return is_known_[place]; }

  /// Raises what the times at these places do not go below. A few calls make them known.
  void refine(const std::vector<std::size_t>& places);
  void make_known(const std::vector<std::size_t>& places);
  /// All of them, known.
  const std::vector<double>& all_us();

 protected:
  PredictedTimes() = default;
  /// Requires: the times at these places are not known.
  virtual void refine_unknown(const std::vector<std::size_t>& /*places*/) {}

  std::vector<double> at_least_us_;
  std::vector<bool> is_known_;
};

/// Predicts the times of variants, which it copies.
using PredictTimes = std::function<std::shared_ptr<PredictedTimes>(const std::vector<Variant>&)>;

}  // namespace swr
