// SPDX-License-Identifier: MIT
// The search where nothing predicts times: it learns from what was measured which axes matter, and
// tries next what is expected to improve most on the best so far.
#pragma once

#include "tuner/search/strategy.h"

#include <memory>
#include <vector>

namespace swr {

/// See docs/search.md. Without SearchOptions::max_variants a tenth of the space is planned.
std::unique_ptr<Strategy> make_learning_strategy(const SearchOptions& options,
                                                 std::vector<Variant> space);

}  // namespace swr
