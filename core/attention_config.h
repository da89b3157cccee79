// SPDX-License-Identifier: MIT
// From the vocabulary of the host (Problem, Variant) to the kernel's compile-time configuration.
#pragma once

#include "templates/attention/config.h"
#include <swr/problem.h>
#include <swr/variant.h>

namespace swr {

AttentionConfig make_attention_config(const AttentionProblem& problem, const Variant& variant);

}  // namespace swr
