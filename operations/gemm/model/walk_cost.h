// SPDX-License-Identifier: MIT
// What a walk of GEMM costs, and whether the model makes it.
#pragma once

#include "model/walk_limits.h"
#include "operations/gemm/model/walk.h"

#include <mutex>
#include <optional>
#include <string>

namespace swr {

WalkCost walk_cost(const GemmLaunch& launch);
/// As of their cost (model/walk_limits.h).
std::optional<std::string> beyond_walk_limits(const GemmLaunch& launch);
void require_walkable(const GemmLaunch& launch);
std::unique_lock<std::mutex> memory_for_walk(const GemmLaunch& launch);

}  // namespace swr
