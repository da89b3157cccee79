// SPDX-License-Identifier: MIT
// GEMM as programs launch it.
#pragma once

#include "driver/ready_launch.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <memory>

namespace swr {

/// Its launches take a GemmCall. Throws: DriverError.
std::unique_ptr<ReadyLaunch> make_ready_gemm(const GemmProblem& problem, const GemmVariant& variant,
                                             int ctas_per_sm, const ServingTools& tools);

}  // namespace swr
