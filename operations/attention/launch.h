// SPDX-License-Identifier: MIT
// The launch plan of a variant.
#pragma once

#include "operations/attention/launch_plan.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>
#include <swr/variant.h>

namespace swr {

/// How a compiled variant is launched on a device, for every problem of this kind.
/// Requires: ctas_per_sm >= 1.
AttentionLaunchPlan launch_plan(const AttentionProblem& problem, const AttentionVariant& variant,
                                int sm_count, int ctas_per_sm);

}  // namespace swr
