// SPDX-License-Identifier: MIT
// The attention of published models.
#pragma once

#include "core/json.h"
#include "core/model_work.h"
#include <swr/problem.h>

#include <vector>

namespace swr {

/// Operation::problems_of_model(): one problem for each length and batch.
std::vector<Problem> attention_problems_of_model(const Json& config, const ModelWork& work);

}  // namespace swr
