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

}  // namespace swr
