// SPDX-License-Identifier: MIT
// Trying variants: their kernels are compiled ahead, what earlier runs know is taken over, and each
// result goes into the database as soon as it is there.
#pragma once

#include "tuner/run/tuner.h"

#include <map>
#include <vector>

namespace swr {

/// The newest row of each variant in the database.
using RowIds = std::map<Variant, long long>;

/// Tries what the strategy chooses and then `rivals`, into the report and the database; returns the
/// rows that hold it. Throws: what the evaluator, the source and the store throw.
RowIds search_variants(Strategy& strategy, std::vector<Variant> rivals, Evaluator& evaluator,
                       const KernelSource& kernels, Store& store, const TuneOptions& options,
                       Progress& progress, TuneReport& report);

}  // namespace swr
