// SPDX-License-Identifier: MIT
// The search that a model guides: it measures what may be best by prediction, learns where the
// model is wrong, and becomes the less adventurous the less of its budget is left.
#pragma once

#include "tuner/search/strategy.h"

#include <memory>
#include <vector>

namespace swr {

/// See docs/search.md. Without SearchOptions::max_variants a tenth of the space is planned.
std::unique_ptr<Strategy> make_model_strategy(const SearchOptions& options,
                                              std::vector<Variant> space,
                                              const PredictTimes& predict);

}  // namespace swr
