// SPDX-License-Identifier: MIT
// What a walk of attention costs, and whether the model makes it.
#pragma once

#include "model/walk_limits.h"
#include "operations/attention/model/walk.h"

#include <mutex>
#include <optional>
#include <string>

namespace swr {

WalkCost walk_cost(const ScheduleShape& launch);
/// As of their cost (model/walk_limits.h).
std::optional<std::string> beyond_walk_limits(const ScheduleShape& launch);
void require_walkable(const ScheduleShape& launch);
std::unique_lock<std::mutex> memory_for_walk(const ScheduleShape& launch);

}  // namespace swr
