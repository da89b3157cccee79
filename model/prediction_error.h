// SPDX-License-Identifier: MIT
// How far a stored prediction may be off: no database holds it, the profile does.
#pragma once

#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include <swr/problem.h>
#include <swr/result.h>

#include <memory>

namespace swr {

/// Prediction::relative_error by the profile; 0 of measured results, and where it is not known.
inline double prediction_error(const Problem& problem, const VariantResult& result,
                               const GpuProfile& profile) {
  if (result.prediction() == nullptr || result.state != ResultState::ok) {
    return 0.0;
  }
  const std::unique_ptr<Predictor> predictor = make_predictor(problem.operation(), profile);
  return predictor ? predictor->relative_error(problem, result.variant, result.time_us()) : 0.0;
}

}  // namespace swr
