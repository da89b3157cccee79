// SPDX-License-Identifier: MIT
// What tuning looks for, as --objective and specs say it: a word, or an expression over metrics of
// which the smallest value is the best (docs/energy.md).
#pragma once

#include "kernel_spec/expression/expression.h"

#include <span>
#include <string>
#include <vector>

namespace swr::kernel_spec {

/// What an objective may read: the keys of metrics(), then kFurtherMetricNames.
std::vector<std::string> objective_names();

/// Of "time", "energy", "edp" (energy times time) or an expression over objective_names(), which
/// are its table. It is computed once with made-up metrics, so that no run ends in what it cannot.
/// Throws: Error{invalid_argument} naming what is unknown and the nearest that is known, or why
/// the expression cannot be computed.
BoundExpression bound_objective(const std::string& text);

/// Throws: Error{invalid_argument} where it has no value, or one that is no number.
double objective_value(const std::string& text, const BoundExpression& expression,
                       std::span<const Value> table);

/// A checked objective, as it is kept: what is to be large is its reciprocal.
/// Throws: Error{invalid_argument} as bound_objective() does, and for words that are to be large.
std::string kept_objective(const std::string& text, bool is_to_be_large);

}  // namespace swr::kernel_spec
