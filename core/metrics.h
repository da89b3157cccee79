// SPDX-License-Identifier: MIT
// The numbers reported for a variant, declared once for tables, JSON, CSV and objectives.
#pragma once

#include <swr/problem.h>
#include <swr/result.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace swr {

using MetricValue = std::variant<long long, double>;

struct Metric {
  std::string_view key;    ///< Name in JSON and CSV; ends in the unit.
  std::string_view title;  ///< Column title of tables and of the page; empty when shown in neither.
  std::string_view meaning;  ///< One sentence for the documentation.
  /// Empty when the metric does not exist for this result, e.g. counters of a prediction.
  std::optional<MetricValue> (*value)(const Problem&, const VariantResult&);
  /// The value as a table shows it.
  std::string (*text)(const MetricValue&);
  bool on_page_alone = false;  ///< Tables of a terminal have no room for it.
  bool is_of_energy = false;   ///< Known only where energy was measured.
};

/// Every metric, in the order of the table's columns.
std::span<const Metric> metrics();

/// Objectives may name these too: shorter names of some, and what is computed from several.
inline constexpr std::array<std::string_view, 4> kFurtherMetricNames{"registers", "l2_misses",
                                                                     "dram_bytes", "occupancy"};

/// Floating-point operations per second in units of 1e12; empty where the time is unknown or, as of
/// a spec without `flops`, the operations are.
std::optional<double> tflop_per_s(const Problem& problem, const VariantResult& result);

}  // namespace swr
