// SPDX-License-Identifier: MIT
// How far a stored prediction may be off: no database holds it, the profile does.
#pragma once

#include "model/profile/gpu_profile.h"
#include <swr/problem.h>
#include <swr/result.h>

namespace swr {

/// Prediction::relative_error by the profile; 0 of measured results, and where it is not known.
double prediction_error(const Problem& problem, const VariantResult& result,
                        const GpuProfile& profile);

/// By how much predictions of portable kernels of the operation differ from published times in the
/// mean, as a share of those: -0.14 is too short. 0 where it is small or not known, and of measured
/// results. Profiles have it as an error named after the operation, with "_too_short" behind.
double prediction_bias(const Problem& problem, const VariantResult& result,
                       const GpuProfile& profile);

/// What a measurement is likely to find for a predicted time.
inline double likely_us(double predicted_us, double bias) { return predicted_us / (1.0 + bias); }

}  // namespace swr
