// SPDX-License-Identifier: MIT
// A tuning run for programs: JSON and CSV. Every row says whether it was measured or predicted.
#pragma once

#include "core/json.h"
#include "tuner/run/tuner.h"

#include <iosfwd>

namespace swr {

/// The result as core/json.h writes it, its key (what `swr-tune emit --variant` takes) and its
/// metrics under the same names whether measured or predicted.
Json result_record(const Problem& problem, const VariantResult& result);

/// The run: problem, device, provenance, times, what was dropped, the best key, every result.
Json report_record(const TuneReport& report);

/// One line per result; the columns are the same for every problem.
void write_csv_header(std::ostream& out);
void write_csv_rows(std::ostream& out, const TuneReport& report);

}  // namespace swr
