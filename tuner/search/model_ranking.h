// SPDX-License-Identifier: MIT
// Predicted times of variants that are not compiled yet.
#pragma once

#include "tuner/search/strategy.h"
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>

namespace swr {

/// Registers from what a kernel holds across its main loop, no spills: good enough to rank, and
/// free, where compiling a whole space takes longer than measuring the part worth measuring.
KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant);
KernelResources estimated_resources(const GemmProblem& problem, const GemmVariant& variant);

/// Predicts with the profile of the device, on `threads` threads. The arguments are copied.
PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads);

}  // namespace swr
