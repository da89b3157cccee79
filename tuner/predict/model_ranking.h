// SPDX-License-Identifier: MIT
// Predicted times of variants that are not compiled yet.
#pragma once

#include "tuner/search/strategy.h"
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <cstddef>
#include <span>
#include <vector>

namespace swr {

/// Predicts with the profile of the device, on `threads` threads. The arguments are copied. Times
/// that take a walk are not known at first.
PredictTimes model_predictor(const Problem& problem, const DeviceInfo& device, int threads);

/// Indices of all variants, those to measure first in front: by predicted time, equal times in the
/// order of the variants. Variants that differ in the order of tiles alone (swizzle, raster) and
/// are predicted within 0.2 % of their fastest cannot be told apart by the model: their times count
/// as equal, and all but the first, q_fastest where it is among them, count as 2 % slower, because
/// measuring one says nearly all of the others. Requires: a time for each variant.
std::vector<std::size_t> shortlist(std::span<const Variant> variants,
                                   std::span<const double> predicted_us);

/// The first `count` of the shortlist. Predicts no more than it takes to tell them.
std::vector<std::size_t> first_of_shortlist(std::span<const Variant> variants,
                                            PredictedTimes& times, std::size_t count);

}  // namespace swr
