// SPDX-License-Identifier: MIT
// Predicted times of variants that are not compiled yet.
#pragma once

#include "tuner/search/strategy.h"
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>

namespace swr {

/// Predicts with the profile of the device, on `threads` threads. The arguments are copied.
PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads);

}  // namespace swr
