// SPDX-License-Identifier: MIT
// The measuring process: serves an evaluator to the tuner that started it.
#pragma once

#include "tuner/evaluator.h"

#include <functional>
#include <memory>

namespace swr {

/// Says which device the evaluator has, or why there is no evaluator, then answers requests until
/// the tuner closes its end. Returns early after an Error, which the tuner is told: after it
/// nothing further can be evaluated. Whatever else is thrown is left to end the process. Throws:
/// Error{invalid_argument} when `socket` is none.
void serve_evaluator(int socket, const std::function<std::unique_ptr<Evaluator>()>& make_evaluator);

}  // namespace swr
