// SPDX-License-Identifier: MIT
// Which lengths of a range to tune so that the nearest of them answers well for every one between
// (docs/search.md, ranges). A range is no thing of its own in the database: it is a search over
// problems, and what it found are their results.
#pragma once

#include "tuner/run/tuner.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace swr {

/// The lengths that a search of [low, high] may tune: both ends, and eight in each octave between.
/// Requires: 1 <= low <= high.
std::vector<int> lengths_between(int low, int high);

/// Lengths that one variant answers for, by the nearest rule.
struct RangePart {
  int from = 0;
  int to = 0;
  Variant variant;
  /// What it may lose: how far its variant was behind the best of the next part's nearest tuned
  /// length, or that one's variant here; 0 where no other part is beside it. Empty where that was
  /// not measured.
  std::optional<double> edge_loss;
  /// A tuned length in or beside it, and what it would have lost as the coarser table without it
  /// answers; empty where no gap was divided there.
  std::optional<int> held_out;
  std::optional<double> held_out_loss;
};

/// For one thread.
class RangeSearch {
 public:
  /// `problems` differ in one length alone, which `lengths` give in ascending order.
  RangeSearch(std::span<const Problem> problems, std::vector<int> lengths, DeviceInfo device);

  /// The place of the length to tune next: where most may be lost; empty when nowhere more than a
  /// percent is.
  std::optional<std::size_t> next() const;

  /// Variants that must be tried at this place, so that it says what its neighbours' would lose.
  std::vector<Variant> rivals(std::size_t place) const;

  void learn(std::size_t place, const TuneReport& report);

  /// What is known so far; parts follow each other and cover what lies between the shortest and the
  /// longest length tuned.
  std::vector<RangePart> parts() const;
  std::size_t tuned() const { return tuned_.size(); }

 private:
  struct Tuned {
    Variant best;
    double best_us = 0.0;
    std::map<Variant, double> times_us;
    /// By what the best of the nearest length, as known before, is behind the best of this one.
    std::optional<double> held_out_loss;
  };
  using Place = std::map<std::size_t, Tuned>::const_iterator;

  bool is_tried(std::size_t place) const {
    return tuned_.contains(place) || failed_.contains(place);
  }
  std::size_t cheap_end() const;
  double suspected_loss(Place low, Place high) const;
  std::optional<double> edge_loss(Place low, Place high) const;
  std::size_t dividing_place(Place low, Place high) const;
  std::optional<double> loss_of(const Variant& variant, const Tuned& at) const;
  Place nearest(std::size_t place) const;
  double octaves(std::size_t low, std::size_t high) const;

  std::span<const Problem> problems_;
  std::vector<int> lengths_;
  DeviceInfo device_;
  std::map<std::size_t, Tuned> tuned_;  ///< By place.
  std::map<std::size_t, bool> failed_;  ///< Tuned in vain.
};

}  // namespace swr
