// SPDX-License-Identifier: MIT
// Problems from the values that a person gives for their fields.
#pragma once

#include <swr/problem.h>

#include <map>
#include <string>
#include <vector>

namespace swr {

/// Values by the name of the field, in the form of Field::write(). A field without any has that of
/// the field it follows, or the usual one.
using ProblemValues = std::map<std::string, std::vector<int>, std::less<>>;

/// One problem for every combination of the values; those of the first field vary fastest. Throws:
/// Error{invalid_argument} as validate().
std::vector<Problem> make_problems(const Operation& operation, const ProblemValues& values);

}  // namespace swr
