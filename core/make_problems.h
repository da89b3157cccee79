// SPDX-License-Identifier: MIT
// Problems from what a person asks: values of their fields, or a published model.
#pragma once

#include <swr/problem.h>
#include <swr/problem_size.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace swr {

/// Values by the name of the field, in the form of Field::write(). A field without any has that of
/// the field it follows, or the usual one.
using ProblemValues = std::map<std::string, std::vector<int>, std::less<>>;

/// One problem for every combination of the values; those of the first field vary fastest. Throws:
/// Error{invalid_argument} as validate().
std::vector<Problem> make_problems(const Operation& operation, const ProblemValues& values);

// What is asked of a published model.

/// What a model's configuration does not say.
struct ModelWork {
  std::vector<int> lengths;  ///< Of sequences.
  std::vector<int> batches = {1};
  bool causal = false;
  std::optional<DType> dtype;                 ///< Instead of the model's.
  bool training = false;                      ///< Backward passes too.
  std::vector<std::string>* notes = nullptr;  ///< What of the model no problem stands for.
};

}  // namespace swr
