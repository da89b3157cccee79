// SPDX-License-Identifier: MIT
#include "model/walk_limits.h"

#include "core/number_text.h"
#include <swr/error.h>

namespace swr {
namespace {

std::string text_of(double number) { return general_text(number, 3); }

}  // namespace

std::optional<std::string> beyond_walk_limits(const WalkCost& cost, const std::string& what) {
  const bool fits = cost.bytes <= kMostWalkBytes && cost.steps <= kMostWalkSteps;
  if (fits) {
    return std::nullopt;
  }
  constexpr double kGibi = 1 << 30;
  return "the model does not walk " + what + ": it would take " + text_of(cost.bytes / kGibi) +
         " GiB and " + text_of(cost.steps) + " steps, and at most " +
         text_of(kMostWalkBytes / kGibi) + " GiB and " + text_of(kMostWalkSteps) +
         " steps are walked; predict a shorter length or a smaller batch, choose larger tiles, or "
         "measure it on the GPU";
}

void require_walkable(const WalkCost& cost, const std::string& what) {
  if (const auto reason = beyond_walk_limits(cost, what)) {
    throw Error(ErrorCode::invalid_argument, *reason);
  }
}

std::unique_lock<std::mutex> memory_for_walk(const WalkCost& cost) {
  constexpr double kMuch = kMostWalkBytes / 8.0;
  static std::mutex mutex;
  return cost.bytes > kMuch ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

}  // namespace swr
