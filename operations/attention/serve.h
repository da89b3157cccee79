// SPDX-License-Identifier: MIT
// Attention as programs launch it.
#pragma once

#include "driver/ready_launch.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <memory>

namespace swr {

/// Its launches take an AttentionCall. Throws: DriverError.
std::unique_ptr<ReadyLaunch> make_ready_attention(const AttentionProblem& problem,
                                                  const AttentionVariant& variant, int ctas_per_sm,
                                                  const ServingTools& tools);

}  // namespace swr
