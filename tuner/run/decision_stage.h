// SPDX-License-Identifier: MIT
// Which variant wins: what an earlier run decided, the finals, and the order of a report.
#pragma once

#include "tuner/run/variant_search.h"

namespace swr {

/// True when all of it was known and finals have decided it before.
bool is_decided(const TuneReport& report);

/// Takes over the decision that an earlier run came to.
void take_known_decision(TuneReport& report, const Store& store, long long run_id);

/// Lets the fastest meet, and puts their new results in place of the screening's.
/// Requires: the options have finals. Throws: as run_finals() and Store::record_decision().
void hold_finals(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                 Store& store, const TuneOptions& options, RowIds& row_ids);

/// By the rule that the store answers with, so that the first row is what a query returns.
void rank_results(TuneReport& report);

/// Puts the robust one of the best predictions first, in the report and in what the store answers.
/// Requires: the report is ranked.
void prefer_robust(TuneReport& report, Store& store, long long run_id);

}  // namespace swr
