// SPDX-License-Identifier: MIT
// The model of GEMM as a predictor.
#pragma once

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <memory>

namespace swr {

std::unique_ptr<Predictor> make_gemm_predictor(const GpuProfile& profile);

/// As Predictor::estimated_resources().
KernelResources estimated_resources(const GemmProblem& problem, const GemmVariant& variant);

}  // namespace swr
