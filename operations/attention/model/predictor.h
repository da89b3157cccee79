// SPDX-License-Identifier: MIT
// The model of attention as a predictor.
#pragma once

#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <memory>
#include <span>

namespace swr {

std::unique_ptr<Predictor> make_attention_predictor(const GpuProfile& profile);

/// Operation::miss_ratio_curve().
MissRatioCurve attention_miss_ratios(const AttentionProblem& problem,
                                     const AttentionVariant& variant, int ctas_per_sm,
                                     const GpuProfile& profile,
                                     std::span<const long long> capacities_bytes);

/// As Predictor::estimated_resources().
KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant);

}  // namespace swr
