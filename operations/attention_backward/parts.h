// SPDX-License-Identifier: MIT
// The parts of attention backward from which operation.cpp makes the operation; core/operation.h
// says what each is for.
#pragma once

#include "core/operation.h"
#include "operations/attention_backward/launch_plan.h"
#include "templates/attention_backward/config.h"
#include "templates/attention_backward/hopper/config.h"
#include <swr/attention_backward_problem.h>
#include <swr/attention_backward_variant.h>

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace swr {

// problem.cpp
std::span<const ProblemField> attention_backward_fields();
std::string file_name_of(const AttentionBackwardProblem& problem);
void enlarge_sizes(AttentionBackwardProblem& problem);
std::optional<AttentionBackwardProblem> near_kind_of(AttentionBackwardProblem problem, int index);
/// Pairs of a query row and a key that it sees, of one head.
double visible_pairs(const AttentionBackwardProblem& problem);
/// Query heads that share a head of K and V.
inline int group_of(const AttentionBackwardProblem& problem) {
  return problem.heads_q / problem.heads_kv;
}
/// Heads whose dK and dV fit the registers of no one warp or warpgroup: several divide the columns.
inline bool has_wide_heads(const AttentionBackwardProblem& problem) {
  return problem.head_dim > 128 || problem.head_dim_v > 128;
}
/// The longest walk of a K and V tile: the Q tiles of every query head of its group.
inline int walk_steps(const AttentionBackwardProblem& problem,
                      const AttentionBackwardVariant& variant) {
  return group_of(problem) * ceil_div(problem.seq_q, variant.tile_m);
}

/// Bytes of fp32 dK and dV of so many parts, and how many the workspace may have.
inline constexpr long long kMostPartBytes = 1LL << 30;
inline long long part_bytes(const AttentionBackwardProblem& problem, int parts) {
  return 4LL * parts * problem.batch * problem.heads_kv * problem.seq_kv *
         (problem.head_dim + problem.head_dim_v);
}

// variant.cpp
std::span<const Axis> attention_backward_axes();
AttentionBackwardVariant kernel_choices(AttentionBackwardVariant variant);
AttentionBackwardVariant in_usual_tile_order(AttentionBackwardVariant variant);
int warps_of(const AttentionBackwardVariant& variant);
bool has_splits(const AttentionBackwardVariant& variant);
std::string tile_text_of(const AttentionBackwardVariant& variant);
std::string description_of(const AttentionBackwardVariant& variant);
std::string description_without_order_of(const AttentionBackwardVariant& variant);

// constraints.cpp
std::span<const ConstraintInfo> attention_backward_constraints();
std::optional<BrokenConstraint> broken_constraint(const AttentionBackwardProblem& problem,
                                                  const AttentionBackwardVariant& variant,
                                                  const DeviceInfo& device);

// space.cpp
AttentionBackwardVariant default_variant(const AttentionBackwardProblem& problem,
                                         const DeviceInfo& device);
std::vector<Variant> points_of(Family family, const AttentionBackwardProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options);

// config.cpp
/// The configuration of the variant's family.
using BackwardConfig = std::variant<AttentionBackwardConfig, HopperAttentionBackwardConfig>;
BackwardConfig config_of(const AttentionBackwardProblem& problem,
                         const AttentionBackwardVariant& variant);
/// Of the kernel of the variant that has most.
int smem_bytes_of(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant);
int threads_of(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant);
std::string config_header_of(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& variant);
/// Requires: ctas_per_sm CTAs of every kernel of the variant fit an SM.
AttentionBackwardPlan plan_of(const AttentionBackwardProblem& problem,
                              const AttentionBackwardVariant& variant, int sm_count,
                              int ctas_per_sm);
/// Sizes and scale, without pointers and strides.
AttentionBackwardParams sizes_of(const AttentionBackwardProblem& problem);
/// Of the pass over K and V tiles, with the workspace of the call as `partials_bytes`.
LaunchGeometry geometry_of(const AttentionBackwardProblem& problem,
                           const AttentionBackwardVariant& variant, int sm_count, int ctas_per_sm);

// model.cpp
/// Bytes that cross shared memory in a step of the pass over K and V tiles: Q and dO are written,
/// and S, dP, dV and dK read them once per warp of a column group; S and dP read K or V for each of
/// the rows that are computed together; dQ reads dS and K. P and dS that cross warps are stored,
/// and read by all of a key's.
double key_step_smem_bytes(const KeyPassConfig& config);
/// Bytes of Q, dO and sums of dQ that `places` CTAs which run together go through. Without a mask
/// all walks are equally long and go through one query head after the other together; under the
/// mask the short ones run ahead, and the CTAs spread over all query heads of their part.
double bytes_walked_together(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& variant, double places);
std::unique_ptr<Predictor> make_attention_backward_predictor(const GpuProfile& profile);

// workload.cpp
std::unique_ptr<Workload> make_attention_backward_workload(const AttentionBackwardProblem& problem,
                                                           const WorkloadTools& tools,
                                                           unsigned long long seed);

// serve.cpp
std::unique_ptr<ReadyLaunch> make_ready_attention_backward(const AttentionBackwardProblem& problem,
                                                           const AttentionBackwardVariant& variant,
                                                           int ctas_per_sm,
                                                           const ServingTools& tools);

}  // namespace swr
