// SPDX-License-Identifier: MIT
// A tuning run for people: the ranked table and what follows from it. Every row says whether it was
// measured or predicted; report/records.h writes the same for programs.
#pragma once

#include "report/explain/describe.h"
#include "tuner/run/tuner.h"

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

namespace swr {

struct ReportStyle {
  /// Rows of the table; the others are counted.
  std::size_t top = 20;
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

/// The ranked table, the best variant, what sawtooth gains, what failed and what was dropped.
void print_report(std::ostream& out, const TuneReport& report, const ReportStyle& style);

}  // namespace swr
