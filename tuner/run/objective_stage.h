// SPDX-License-Identifier: MIT
// What a tuning run does for an objective beside time, once the finals are over.
#pragma once

#include "tuner/run/variant_search.h"

namespace swr {

/// What an idle GPU draws: to be asked before anything is measured, when it has had time to cool.
/// Throws: Error{no_counters} when that is not known and the objective needs energy.
PowerReading idle_power(const Problem& problem, Evaluator& evaluator,
                        const ObjectiveOptions& options);

/// Measures the energy of those that matter where it is not known, into the report and their rows.
/// Throws: as measure_energy() and Store::record_energy().
void measure_energies(TuneReport& report, Evaluator& evaluator, const KernelSource& kernels,
                      Store& store, const TuneOptions& options, const PowerReading& idle,
                      const RowIds& row_ids);

/// Ranks the report's variants by the objective, and stores who won unless that is known.
/// Throws: as rank_by() and Store::record_choice().
void choose_by_objective(TuneReport& report, Store& store, const TuneOptions& options,
                         const RowIds& row_ids);

}  // namespace swr
