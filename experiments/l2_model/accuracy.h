// SPDX-License-Identifier: MIT
// How right the model is about a space that was measured: what matters for choosing a variant, and
// the traffic behind it.
#pragma once

#include "core/recorded_space.h"
#include "model/profile/gpu_profile.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// A measured variant beside its prediction.
struct Comparison {
  Variant variant;
  double measured_us = 0.0;
  double predicted_us = 0.0;
  double bound_us = 0.0;  ///< What predicted_us does not go below, known without a walk.
  long long measured_read_sectors = 0;  ///< Demanded by the SMs; 0 without counters.
  long long predicted_read_sectors = 0;
  long long measured_dram_bytes = 0;    ///< Read from DRAM; 0 without counters.
  long long predicted_dram_bytes = 0;   ///< From an empty L2.
  long long compulsory_read_bytes = 0;  ///< Every input once.
};

/// One per successful measurement. Requires: a measured space.
std::vector<Comparison> compare(const RecordedSpace& space, const GpuProfile& profile);

/// Times this close count as equal: medians of one variant measured twice differ by 0.22 % in the
/// median and by more than 0.9 % in a tenth of the cases (2,400 variants on an H200).
inline constexpr double kTie = 0.005;

struct Accuracy {
  std::size_t variants = 0;
  /// Rank correlation of predicted and measured times (Spearman; equal values share their rank).
  double rank_correlation = 0.0;
  /// How much slower than the best measured variant the best of the model's first 1, 4 and 8 is, in
  /// the order of shortlist().
  double regret_of_1 = 0.0;
  double regret_of_4 = 0.0;
  double regret_of_8 = 0.0;
  bool best_among_first_8 = false;
  /// The first 8 hold one that is at most kTie slower than the best.
  bool tied_among_first_8 = false;
  /// Median of predicted over measured time.
  double time_ratio = 0.0;
  /// |predicted - measured| / measured.
  double worst_sector_error = 0.0;
  /// Of rows that read more than Q, K and V once; a warm L2 answers for less.
  std::size_t dram_rows = 0;
  double median_dram_error = 0.0;
  double worst_dram_error = 0.0;
  /// Pairs that differ in the order alone and whose measured DRAM bytes differ by more than 5 %,
  /// and those of them in which the model names the right order.
  std::size_t order_pairs = 0;
  std::size_t order_pairs_right = 0;
};

/// Requires: at least one comparison.
Accuracy assess(const std::vector<Comparison>& comparisons);

/// How the ranking that walks no more than it must compares with one that walks everything.
struct SparedWalks {
  /// The most that a predicted time of its first eight differs from that at the same place of the
  /// other's, as a share.
  double worst_difference = 0.0;
  double worst_bound = 0.0;   ///< The highest of bounds over predicted times.
  std::size_t predicted = 0;  ///< Variants of which it asked for the time.
  std::size_t variants = 0;
};

/// Requires: at least one comparison.
SparedWalks spare_walks(const std::vector<Comparison>& comparisons);

/// A row of the table in experiments/l2_model.
std::string accuracy_row(const Problem& problem, const Accuracy& accuracy);

inline constexpr std::string_view kAccuracyHeader =
    "| Problem | Variants | Rank correlation | Regret of first 1 / 4 / 8 | Best in first 8 | "
    "Time predicted / measured | Sectors, worst | DRAM bytes, median / worst | Order right |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

}  // namespace swr
