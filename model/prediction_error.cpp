// SPDX-License-Identifier: MIT
#include "model/prediction_error.h"

#include "core/operation.h"
#include "model/predictor.h"

#include <memory>
#include <string>

namespace swr {

double prediction_error(const Problem& problem, const VariantResult& result,
                        const GpuProfile& profile) {
  if (result.prediction() == nullptr || result.state != ResultState::ok) {
    return 0.0;
  }
  const std::unique_ptr<Predictor> predictor = make_predictor(problem.operation(), profile);
  return predictor ? predictor->relative_error(problem, result.variant, result.time_us()) : 0.0;
}

double prediction_bias(const Problem& problem, const VariantResult& result,
                       const GpuProfile& profile) {
  const bool is_portable_prediction = result.prediction() != nullptr &&
                                      result.state == ResultState::ok &&
                                      family_of(result.variant) == Family::portable;
  return is_portable_prediction
             ? -profile.prediction_error(std::string(problem.operation().name()) + "_too_short")
             : 0.0;
}

}  // namespace swr
