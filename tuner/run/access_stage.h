// SPDX-License-Identifier: MIT
// How the best variants of a run go to memory, counted once they are known.
#pragma once

#include "tuner/run/variant_search.h"

namespace swr {

/// Into the report and the rows of those. What cannot be counted says why.
/// Requires: the report is ranked. Throws: as Store::record_accesses().
void count_accesses_of_best(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                            Store& store, const RowIds& row_ids);

}  // namespace swr
