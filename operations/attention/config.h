// SPDX-License-Identifier: MIT
// From the vocabulary of the host (Problem, AttentionVariant) to the kernels' compile-time
// configurations.
#pragma once

#include "operations/attention/launch_plan.h"
#include "templates/attention/config.h"
#include "templates/attention/hopper/config.h"
#include <swr/attention_params.h>
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <string>
#include <variant>

namespace swr {

/// The portable family's. The axes of the variant are taken as they are, whatever its family.
PortableAttentionConfig make_attention_config(const AttentionProblem& problem,
                                              const AttentionVariant& variant);
/// The Hopper family's, likewise.
HopperAttentionConfig make_hopper_config(const AttentionProblem& problem,
                                         const AttentionVariant& variant);

// The header that defines swr::kConfig.
std::string config_header(const PortableAttentionConfig& config);
std::string config_header(const HopperAttentionConfig& config);

/// The configuration of a variant's own family.
using AttentionFamilyConfig = std::variant<PortableAttentionConfig, HopperAttentionConfig>;
AttentionFamilyConfig make_family_config(const AttentionProblem& problem,
                                         const AttentionVariant& variant);

/// The sizes of the problem; pointers, strides and what a launch chooses are the caller's.
AttentionParams make_attention_params(const AttentionProblem& problem);

int threads_per_cta(const AttentionFamilyConfig& config);
/// Dynamic shared memory of a CTA.
int smem_bytes(const AttentionFamilyConfig& config);

/// How a compiled variant is launched on a device, for every problem of this kind.
/// Requires: ctas_per_sm >= 1.
AttentionLaunchPlan launch_plan(const AttentionProblem& problem, const AttentionVariant& variant,
                                int sm_count, int ctas_per_sm);

}  // namespace swr
