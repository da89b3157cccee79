// SPDX-License-Identifier: MIT
// A tuning run for people: the ranked table and what follows from it. Every row says whether it was
// measured or predicted; tuner/records.h writes the same for programs.
#pragma once

#include "tuner/tuner.h"

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

/// Sizes of the tile and, for attention, its warps: "64x64x4", "128x256x64".
std::string tile_text(const Variant& variant);

/// "64x64x4 stages 2 sawtooth persistent q_fastest": the variant in a line of prose.
std::string describe(const Variant& variant);

/// "NVIDIA GB10 (sm_121, 48 SMs, 24.00 MiB L2)".
std::string describe(const DeviceInfo& device);

/// The ranked table, the best variant, what sawtooth gains, what failed and what was dropped.
void print_report(std::ostream& out, const TuneReport& report, const ReportStyle& style);

}  // namespace swr
