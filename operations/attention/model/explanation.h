// SPDX-License-Identifier: MIT
// Why a prediction is what it is: everything the model knows of one variant, and how its misses
// would change with the size of L2 and the length of the sequence.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/attention/model/l2_traffic.h"
#include "operations/attention/model/time.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <optional>
#include <vector>

namespace swr {

/// Excess misses if L2 could hold this much.
struct MissPoint {
  long long capacity_bytes = 0;
  long long excess_misses = 0;
};

struct AttentionExplanation {
  Occupancy occupancy;
  ScheduleShape shape;
  /// Rounds in which the launch's CTAs fill the GPU; a fraction is a last round that leaves places
  /// empty.
  double waves = 0.0;
  StepCost step;
  L2Traffic traffic;
  Prediction prediction;
  /// Of its latency: what goes if K and V come from L2 whenever they are asked for.
  double miss_wait_us = 0.0;
  /// From one walk in which no CTA waits for memory, over the shares of the effective L2 in
  /// kCapacityShares.
  std::vector<MissPoint> miss_curve;
  /// The smallest capacity without excess misses, in the same walk.
  long long capacity_without_excess_bytes = 0;
  /// The shortest sequence whose excess misses reach a twentieth of those that no cache avoids, in
  /// steps of 1/16; empty when there is none up to longest_seq_walked. K and V grow; Q as well when
  /// it is as long as they are.
  std::optional<int> first_seq_with_excess;
  /// kLongestSequence, or less where the model walks no longer ones (walk_limits.h).
  int longest_seq_walked = 0;
};

inline constexpr int kLongestSequence = 256 * 1024;

/// Throws: Error{invalid_argument} when no CTA fits an SM, or beyond the limits of walk_limits.h.
AttentionExplanation explain(const AttentionProblem& problem, const AttentionVariant& variant,
                             const KernelResources& resources, const GpuProfile& profile);

}  // namespace swr
