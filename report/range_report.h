// SPDX-License-Identifier: MIT
// What tuning a range of lengths found: who answers where, and what that may lose.
#pragma once

#include "core/json.h"
#include "tuner/run/range_search.h"

#include <cstddef>
#include <iosfwd>
#include <span>

namespace swr {

/// `width` of the terminal in characters; 0 is none. `tuned` lengths in all.
void print_range(std::ostream& out, std::span<const RangePart> parts, std::size_t tuned,
                 std::size_t width);
Json range_record(std::span<const RangePart> parts, std::size_t tuned);

}  // namespace swr
