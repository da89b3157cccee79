// SPDX-License-Identifier: MIT
// The model of attention as a predictor.
#pragma once

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <memory>

namespace swr {

std::unique_ptr<Predictor> make_attention_predictor(const GpuProfile& profile);

/// As Predictor::estimated_resources().
KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant);

}  // namespace swr
