// SPDX-License-Identifier: MIT
// The parts of attention from which operation.cpp makes the operation; core/operation.h says what
// each is for.
#pragma once

#include "core/json.h"
#include "core/make_problems.h"
#include "core/operation.h"
#include "core/package_text.h"
#include "driver/ready_launch.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "report/explain/explanation.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

// problem.cpp
std::span<const ProblemField> attention_fields();
std::string file_name_of(const AttentionProblem& problem);
void enlarge_sizes(AttentionProblem& problem);

// variant.cpp
std::span<const Axis> attention_axes();
AttentionVariant kernel_choices(AttentionVariant variant);
AttentionVariant in_usual_tile_order(AttentionVariant variant);
int warps_of(const AttentionVariant& variant);
bool has_splits(const AttentionVariant& variant);

// constraints.cpp
std::span<const ConstraintInfo> attention_constraints();
std::optional<BrokenConstraint> broken_constraint(const AttentionProblem& problem,
                                                  const AttentionVariant& variant,
                                                  const DeviceInfo& device);
AttentionVariant default_variant(const AttentionProblem& problem, const DeviceInfo& device);

// quick_choice.cpp
double trusted_octaves_of(const AttentionProblem& problem, const DeviceInfo& device);
double quick_time_us_of(const AttentionProblem& problem, const AttentionVariant& variant,
                        const DeviceInfo& device);
AttentionVariant modelled_variant_of(const AttentionProblem& problem, const DeviceInfo& device);
std::optional<AttentionProblem> near_kind_of(AttentionProblem problem, int index);

// space.cpp
std::vector<Variant> points_of(Family family, const AttentionProblem& problem,
                               const DeviceInfo& device, const SpaceOptions& options);

// config.cpp
std::string config_header_of(const AttentionProblem& problem, const AttentionVariant& variant);
int smem_bytes_of(const AttentionProblem& problem, const AttentionVariant& variant);
int threads_of(const AttentionProblem& problem, const AttentionVariant& variant);
LaunchGeometry geometry_of(const AttentionProblem& problem, const AttentionVariant& variant,
                           int sm_count, int ctas_per_sm);

// report.cpp
std::string tile_sizes_text(const AttentionVariant& variant);
std::string tile_text_of(const AttentionVariant& variant);
std::string hopper_text(const AttentionVariant& variant);
std::string persistence_text(const AttentionVariant& variant);
std::string swizzle_text(const AttentionVariant& variant);
std::string description_of(const AttentionVariant& variant);
std::string description_without_order_of(const AttentionVariant& variant);
std::string conflict_advice_of(const AttentionVariant& variant);
const Advice& attention_advice();

const PackagePart& attention_package_part();
/// Problem and launch of a kernel, as C++ of the package's table.
std::string attention_package_row(const PackagedKernel& kernel);

/// Its launches take an AttentionCall. Throws: DriverError.
std::unique_ptr<ReadyLaunch> make_ready_attention(const AttentionProblem& problem,
                                                  const AttentionVariant& variant, int ctas_per_sm,
                                                  const ServingTools& tools);

/// Operation::problems_of_model(): one problem for each length and batch.
std::vector<Problem> attention_problems_of_model(const Json& config, const ModelWork& work);

std::unique_ptr<Predictor> make_attention_predictor(const GpuProfile& profile);

/// Operation::miss_ratio_curve().
MissRatioCurve attention_miss_ratios(const AttentionProblem& problem,
                                     const AttentionVariant& variant, int ctas_per_sm,
                                     const GpuProfile& profile,
                                     std::span<const long long> capacities_bytes);

/// As Predictor::estimated_resources().
KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant);

// explained.cpp
/// Throws: Error{invalid_argument} when no CTA fits an SM.
std::unique_ptr<ExplainedVariant> explain_attention(const ExplainRequest& request);

}  // namespace swr
