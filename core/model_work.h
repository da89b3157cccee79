// SPDX-License-Identifier: MIT
// What is asked of a published model.
#pragma once

#include <swr/problem_size.h>

#include <optional>
#include <vector>

namespace swr {

/// What a model's configuration does not say.
struct ModelWork {
  std::vector<int> lengths;  ///< Of sequences.
  std::vector<int> batches = {1};
  bool causal = false;
  std::optional<DType> dtype;  ///< Instead of the model's.
  bool training = false;       ///< Backward passes too.
};

}  // namespace swr
