// SPDX-License-Identifier: MIT
// The process that the tuner started: serves an evaluator, or whatever answers requests.
#pragma once

#include "core/json.h"
#include "tuner/evaluator.h"

#include <functional>
#include <memory>

namespace swr {

/// Says which device the evaluator has, or why there is no evaluator, then answers requests until
/// the tuner closes its end. Returns early after an Error, which the tuner is told: after it
/// nothing further can be evaluated. Whatever else is thrown is left to end the process. Throws:
/// Error{invalid_argument} when `socket` is none.
void serve_evaluator(int socket, const std::function<std::unique_ptr<Evaluator>()>& make_evaluator);

/// Answers requests until the tuner closes its end. Throws: what `answer` throws;
/// Error{invalid_argument} when `socket` is none.
void serve_requests(int socket, const std::function<Json(const Json&)>& answer);

}  // namespace swr
