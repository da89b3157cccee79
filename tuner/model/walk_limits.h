// SPDX-License-Identifier: MIT
// What a walk of a schedule costs, known before it begins, and the most that the model walks:
// legal problems exist whose walks take terabytes or years.
#pragma once

#include "tuner/model/gemm_walk.h"
#include "tuner/model/gpu_profile.h"
#include "tuner/model/schedule_walk.h"
#include <swr/problem.h>
#include <swr/variant.h>

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

WalkCost walk_cost(const ScheduleShape& shape);
WalkCost walk_cost(const GemmLaunch& launch);

inline constexpr double kMostWalkBytes = 2.0 * (1ULL << 30);
inline constexpr double kMostWalkSteps = 8.0 * (1ULL << 30);

/// Why the model does not walk it, with the size and what to do; empty when it does.
std::optional<std::string> beyond_walk_limits(const ScheduleShape& shape);
std::optional<std::string> beyond_walk_limits(const GemmLaunch& launch);
/// Of the variant's schedule on the GPU.
std::optional<std::string> beyond_walk_limits(const Problem& problem, const Variant& variant,
                                              int ctas_per_sm, const GpuProfile& profile);

/// Throws: Error{invalid_argument} when a walk is beyond the limits.
template <typename Launch>
void require_walkable(const Launch& launch);

/// Held while walking: walks that take much memory run one at a time, whatever the threads.
template <typename Launch>
std::unique_lock<std::mutex> memory_for_walk(const Launch& launch);

}  // namespace swr
