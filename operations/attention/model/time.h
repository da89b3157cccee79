// SPDX-License-Identifier: MIT
// From work and traffic to a time. The purpose is ranking: each term is one physical limit, and
// docs/model.md says what is left out.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/attention/model/l2_traffic.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>
#include <swr/result.h>

#include <array>

namespace swr {

/// Clocks one SM spends on one KV step of one CTA when nothing else limits it.
struct StepCost {
  double matrix_clocks = 0.0;   ///< Tensor cores, or the shared memory that feeds them.
  double softmax_clocks = 0.0;  ///< exp2, scaling and sums, and asking for K and V.
  double compute_clocks = 0.0;  ///< Both, as far as the resident warps overlap them.
  double product_clocks = 0.0;  ///< Of a lone warp: tensor cores after what feeds them.
};

/// Operations of products that a main loop gets per SM and clock from mma.sync.
double main_loop_flop_per_clock(const GpuProfile& profile);

/// Clocks of work on tensor cores, shared memory and softmax's units, as far as the works of `ctas`
/// CTAs of an SM hide one another.
double clocks_in_turn(const std::array<double, 3>& units, int ctas);

/// `ctas_per_sm` counts CTAs that really share an SM, see ScheduleShape.
StepCost step_cost(const AttentionProblem& problem, const AttentionVariant& variant,
                   int ctas_per_sm, const GpuProfile& profile);

/// The schedule with what this GPU's memory does to it: rate, delay of a miss, L2 partitions. As if
/// code factors were 1, so that variants of one tile share it.
ScheduleShape schedule_on_gpu(const AttentionProblem& problem, const AttentionVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile);

/// The code of a portable variant's main loop, for GpuProfile::code_factor().
KernelCode kernel_code(int head_dim, const AttentionVariant& variant);

/// Prediction::relative_error of a variant that is predicted to take so long; 0 where it is not
/// known.
double prediction_error(const AttentionProblem& problem, const AttentionVariant& variant,
                        double time_us, const GpuProfile& profile);

/// Of `resources` only spills count here; `shape` holds what registers leave room for.
/// Requires: `traffic` belongs to `shape`, and `shape` to the problem and variant.
Prediction predict_time(const AttentionProblem& problem, const AttentionVariant& variant,
                        const KernelResources& resources, const ScheduleShape& shape,
                        const L2Traffic& traffic, const GpuProfile& profile);

/// What the time of predict_time() does not go below, without looking at single CTAs.
/// Requires: as there.
double bound_time_us(const AttentionProblem& problem, const AttentionVariant& variant,
                     const KernelResources& resources, const ScheduleShape& shape,
                     const L2Traffic& traffic, const GpuProfile& profile);

/// Clocks of a KV step in which a CTA moves spilled registers and waits for them.
double spill_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                    const KernelResources& resources);

/// What `steps` KV steps of CTAs write to L2 of them.
long long spilled_sectors(const AttentionProblem& problem, const AttentionVariant& variant,
                          const KernelResources& resources, long long steps);

}  // namespace swr
