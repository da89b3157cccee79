// SPDX-License-Identifier: MIT
// The functions that operation.cpp makes the operation of.
#pragma once

#include "core/operation.h"
#include "driver/ready_launch.h"
#include "operations/attention_serving/launch_plan.h"
#include "operations/attention_serving/serving_attention.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace swr {

// problem.cpp
void validate(const ServingAttentionProblem& problem);
double flop_count(const ServingAttentionProblem& problem);
CompulsoryBytes compulsory_bytes(const ServingAttentionProblem& problem);
std::string to_string(const ServingAttentionProblem& problem);
std::string file_name_of(const ServingAttentionProblem& problem);
void enlarge_sizes(ServingAttentionProblem& problem);
std::span<const ProblemField> serving_attention_fields();

// config.cpp
using ServingFamilyConfig = std::variant<ServingAttentionConfig, HopperServingConfig>;
ServingFamilyConfig config_of(const ServingAttentionProblem& problem,
                              const ServingAttentionVariant& variant);
std::string config_header_of(const ServingAttentionProblem& problem,
                             const ServingAttentionVariant& variant);
/// With room for the longest list of sequences: the limit of a kernel is set once, whatever batches
/// it will serve.
int smem_bytes_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant);
int threads_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant);
int warps_of(const ServingAttentionVariant& variant);
ServingLaunchPlan plan_of(const ServingAttentionProblem& problem,
                          const ServingAttentionVariant& variant, int sm_count, int ctas_per_sm);
/// What a variant chooses of a launch.
void set_choices(ServingAttentionParams& params, const ServingAttentionVariant& variant);
/// Sizes, strides of nothing, and bounds, for the lengths that are drawn for the problem.
ServingAttentionParams bounds_of(const ServingAttentionProblem& problem);
LaunchGeometry geometry_of(const ServingAttentionProblem& problem,
                           const ServingAttentionVariant& variant, int sm_count, int ctas_per_sm);

// space.cpp
std::span<const Axis> serving_attention_axes();
std::span<const ConstraintInfo> serving_attention_constraints();
ServingAttentionVariant default_variant(const ServingAttentionProblem& problem,
                                        const DeviceInfo& device);
std::optional<BrokenConstraint> broken_constraint(const ServingAttentionProblem& problem,
                                                  const ServingAttentionVariant& variant,
                                                  const DeviceInfo& device);
std::vector<Variant> points_of(Family family, const ServingAttentionProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options);
std::string tile_text_of(const ServingAttentionVariant& variant);
ServingAttentionVariant kernel_choices(ServingAttentionVariant variant);
ServingAttentionVariant in_usual_tile_order(ServingAttentionVariant variant);

// workload.cpp
std::unique_ptr<Workload> make_serving_attention_workload(const ServingAttentionProblem& problem,
                                                          const WorkloadTools& tools,
                                                          unsigned long long seed);

// serve.cpp
std::unique_ptr<ReadyLaunch> make_ready_serving_attention(const ServingAttentionProblem& problem,
                                                          const ServingAttentionVariant& variant,
                                                          int ctas_per_sm,
                                                          const ServingTools& tools);

// model.cpp
std::unique_ptr<Predictor> make_serving_attention_predictor(const GpuProfile& profile);

}  // namespace swr
