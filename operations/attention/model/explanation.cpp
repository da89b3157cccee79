// SPDX-License-Identifier: MIT
#include "operations/attention/model/explanation.h"

#include "operations/attention/model/walk.h"
#include <swr/error.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

constexpr std::array kCapacityShares{0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0};

AttentionProblem with_length(AttentionProblem problem, int seq) {
  problem.seq_q = problem.seq_q == problem.seq_kv ? seq : problem.seq_q;
  problem.seq_kv = seq;
  return problem;
}

/// Excess misses begin when they are such a share of those that no cache avoids: sets of unequal
/// load lose a line now and then long before.
constexpr double kNoticed = 0.05;
constexpr int kShortest = 1024;

/// The longest of the lengths that first_seq_with_excess() doubles through and the model walks.
int longest_seq_walked(const AttentionProblem& problem, const AttentionVariant& variant,
                       int ctas_per_sm, const GpuProfile& profile) {
  const auto is_walked = [&](int seq) {
    return !beyond_walk_limits(
        schedule_on_gpu(with_length(problem, seq), variant, ctas_per_sm, profile));
  };
  int longest = 0;
  for (int seq = kShortest; seq <= kLongestSequence && is_walked(seq); seq *= 2) {
    longest = seq;
  }
  return longest;
}

/// Doubles the length until misses begin, then bisects the last doubling.
std::optional<int> first_seq_with_excess(const AttentionProblem& problem,
                                         const AttentionVariant& variant, int ctas_per_sm,
                                         const GpuProfile& profile, int longest) {
  const auto misses = [&](int seq) {
    const ScheduleShape shape =
        schedule_on_gpu(with_length(problem, seq), variant, ctas_per_sm, profile);
    const L2Traffic traffic = simulate_l2(shape, profile.l2_policy());
    return kNoticed * static_cast<double>(traffic.compulsory_misses) <
           static_cast<double>(traffic.excess_misses);
  };
  int high = kShortest;
  while (high <= longest && !misses(high)) {
    high *= 2;
  }
  if (high > longest) {
    return std::nullopt;
  }
  const int resolution = std::max(1, high / 32);  // 1/16 of the half that is known to fit.
  int low = high == kShortest ? 0 : high / 2;
  while (high - low > resolution) {
    const int middle = (low + high) / 2;
    (misses(middle) ? high : low) = middle;
  }
  return high;
}

void add_curve(const MissCurve& curve, long long l2_effective_bytes,
               AttentionExplanation& explanation) {
  for (const double share : kCapacityShares) {
    const auto bytes = static_cast<long long>(share * static_cast<double>(l2_effective_bytes));
    explanation.miss_curve.push_back({bytes, curve.excess_misses(bytes / kSectorBytes)});
  }
  explanation.capacity_without_excess_bytes = curve.capacity_without_excess() * kSectorBytes;
}

}  // namespace

AttentionExplanation explain(const AttentionProblem& problem, const AttentionVariant& variant,
                             const KernelResources& resources, const GpuProfile& profile) {
  AttentionExplanation result;
  result.occupancy = occupancy(resources, problem, variant, profile.device);
  const int ctas_per_sm = result.occupancy.ctas_per_sm;
  if (ctas_per_sm < 1) {
    throw Error(ErrorCode::invalid_argument, "no CTA of " + to_key(variant) + " fits an SM of " +
                                                 profile.device.name + ", limited by " +
                                                 result.occupancy.limited_by +
                                                 "; choose a smaller tile or fewer stages");
  }
  result.shape = schedule_on_gpu(problem, variant, ctas_per_sm, profile);
  result.waves = static_cast<double>(result.shape.ctas) /
                 (static_cast<double>(profile.device.sm_count) * ctas_per_sm);
  result.step = step_cost(problem, variant, result.shape.ctas_per_sm, profile);
  result.traffic = simulate_l2(result.shape, profile.l2_policy());
  result.prediction =
      predict_time(problem, variant, resources, result.shape, result.traffic, profile);
  L2Traffic resident = result.traffic;
  resident.front_miss_share = 0.0;
  result.miss_wait_us =
      result.prediction.time_us -
      predict_time(problem, variant, resources, result.shape, resident, profile).time_us;
  add_curve(miss_curve(result.shape), profile.l2_effective_bytes, result);
  result.longest_seq_walked = longest_seq_walked(problem, variant, ctas_per_sm, profile);
  result.first_seq_with_excess =
      first_seq_with_excess(problem, variant, ctas_per_sm, profile, result.longest_seq_walked);
  return result;
}

}  // namespace swr
