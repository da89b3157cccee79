// SPDX-License-Identifier: MIT
// Which of several predicted variants that the model cannot tell apart to choose: the one that
// loses least should the chip be another than its profile says.
#pragma once

#include <swr/result.h>

#include <cstddef>
#include <optional>
#include <span>

namespace swr {

/// Predicted times of one space this close are ties: about their common error they scatter by 1.75
/// % within a tenth of the best (124 spaces of an H200, experiments/l2_model).
inline constexpr double kModelTie = 0.02;

/// How much slower than it says a chip may be in one of the things that take time: tensor cores,
/// exponentials, L2, memory, latencies. Related chips differ by about as much.
inline constexpr double kChipDoubt = 0.25;

struct RobustChoice {
  std::size_t place = 0;  ///< Among the results.
  std::size_t tied = 0;   ///< Results within kModelTie of the fastest, itself included.
  /// How much slower than the best of the tied it is at worst, as a share: on the chip as it is
  /// described, or with one of the five slower by kChipDoubt.
  double slowdown = 0.0;
  double fastest_slowdown = 0.0;  ///< The same of the fastest.
};

/// The choice among the successful predictions: the least slowdown, of equal ones the fastest.
/// Empty where no two tie, where how far they may be off is not known, and of measured results.
std::optional<RobustChoice> choose_robust(std::span<const VariantResult> results);

}  // namespace swr
