// SPDX-License-Identifier: MIT
// What a run may try: the space that is asked for, the order of trying, and whom it must not miss.
#pragma once

#include "tuner/run/tuner.h"

#include <memory>
#include <vector>

namespace swr {

/// Those of the options, or the whole space; what constraints drop goes into the report.
/// Throws: as require_variants().
std::vector<Variant> candidates(TuneReport& report, const TuneOptions& options);

std::unique_ptr<Strategy> choose_strategy(TuneReport& report, const TuneOptions& options,
                                          std::vector<Variant> variants, Progress& progress);

/// The default variant where finals will compare to it and the axes allow it, then those of the
/// options: as many as the budget has places for.
std::vector<Variant> choose_rivals(const TuneReport& report, const TuneOptions& options,
                                   const std::vector<Variant>& space);

}  // namespace swr
