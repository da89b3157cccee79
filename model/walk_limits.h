// SPDX-License-Identifier: MIT
// What a walk of a schedule costs, known before it begins, and the most that the model walks:
// legal problems exist whose walks take terabytes or years.
#pragma once

#include <mutex>
#include <optional>
#include <string>

namespace swr {

/// Estimates from above. In floating point, which no legal size overflows.
struct WalkCost {
  double bytes = 0.0;  ///< Memory of one walk.
  /// What takes time: steps of all CTAs, as if none went together, and looks at a resident CTA
  /// when another ends. Some ten million a second, many more where CTAs go together.
  double steps = 0.0;
};

inline constexpr double kMostWalkBytes = 2.0 * (1ULL << 30);
inline constexpr double kMostWalkSteps = 8.0 * (1ULL << 30);

/// Why the model does not walk `what`, with the size and what to do; empty when it does.
std::optional<std::string> beyond_walk_limits(const WalkCost& cost, const std::string& what);

/// Throws: Error{invalid_argument} when a walk is beyond the limits.
void require_walkable(const WalkCost& cost, const std::string& what);

/// Held while walking: walks that take much memory run one at a time, whatever the threads.
std::unique_lock<std::mutex> memory_for_walk(const WalkCost& cost);

}  // namespace swr
