// SPDX-License-Identifier: MIT
// Which of several variants that are equally fast wins: by what two runs find alike, so that they
// choose alike.
#pragma once

#include <swr/result.h>

#include <cstddef>
#include <span>
#include <vector>

namespace swr {

/// The places among `tied` whose excess misses are as few as the fewest. Counts of equal kernels
/// jitter, so neighbours in the order of counts belong together unless a wide gap parts them: a
/// count that is half as much again as the one before and a quarter of the compulsory sectors on
/// top. Unknown counts belong to none while one is known.
std::vector<std::size_t> with_fewest_misses(const Problem& problem,
                                            std::span<const VariantResult> results,
                                            std::vector<std::size_t> tied);

/// The place that wins a tie: among those with the fewest excess misses fewest registers, then the
/// first variant key. Requires: not empty.
std::size_t first_of_tied(const Problem& problem, std::span<const VariantResult> results,
                          const std::vector<std::size_t>& tied);

}  // namespace swr
