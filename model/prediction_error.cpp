// SPDX-License-Identifier: MIT
#include "model/prediction_error.h"

#include "core/operation.h"
#include "model/predictor.h"

#include <memory>

namespace swr {

double prediction_error(const Problem& problem, const VariantResult& result,
                        const GpuProfile& profile) {
  if (result.prediction() == nullptr || result.state != ResultState::ok) {
    return 0.0;
  }
  const std::unique_ptr<Predictor> predictor = make_predictor(problem.operation(), profile);
  return predictor ? predictor->relative_error(problem, result.variant, result.time_us()) : 0.0;
}

}  // namespace swr
