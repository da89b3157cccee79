// SPDX-License-Identifier: MIT
// A tuning run for people: the ranked table and what follows from it. Every row says whether it was
// measured or predicted; and, as JSON, for programs.
#pragma once

#include "core/gpu_condition.h"
#include "core/json.h"
#include "report/explain/explain_text.h"
#include "tuner/run/range_search.h"
#include "tuner/run/tuner.h"

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>

namespace swr {

struct ReportStyle {
  /// Rows of the table; the others are counted.
  std::size_t top = 20;
  /// Everything that is known, not the best alone.
  bool verbose = true;
  /// Highlight the best row with terminal escape codes.
  bool bold = false;
  /// Characters of a terminal's line; 0 where lines may be of any length.
  std::size_t width = 0;
};

/// Two successful results that differ in the order alone.
struct OrderPair {
  const VariantResult* cyclic = nullptr;
  const VariantResult* sawtooth = nullptr;
};

/// Of the pairs that differ in the order alone, the one with the fastest member.
std::optional<OrderPair> best_order_pair(const std::vector<VariantResult>& results);

/// Where times were measured at a lower SM clock than the profile of the chip has under load.
std::optional<SlowClock> slow_clock(const TuneReport& report);

/// The ranked table, the best variant, what sawtooth gains, what failed and what was dropped.
void print_report(std::ostream& out, const TuneReport& report, const ReportStyle& style);

/// `width` of the terminal in characters; 0 is none. `tuned` lengths in all.
void print_range(std::ostream& out, std::span<const RangePart> parts, std::size_t tuned,
                 std::size_t width);
Json range_record(std::span<const RangePart> parts, std::size_t tuned);

/// The result as core/json.h writes it, its key (what `swr-tune emit --variant` takes) and its
/// metrics under the same names whether measured or predicted.
Json result_record(const Problem& problem, const VariantResult& result);

/// The run: problem, device, provenance, times, what was dropped, the best key, every result.
Json report_record(const TuneReport& report);

/// One line per result; the columns are the same for every problem.
void write_csv_header(std::ostream& out);
void write_csv_rows(std::ostream& out, const TuneReport& report);

}  // namespace swr
