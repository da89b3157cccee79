// SPDX-License-Identifier: MIT
#include "tuner/cli/explain_text.h"

#include "tuner/analysis.h"
#include "tuner/number_text.h"

#include <ostream>

namespace swr::cli {
namespace {

void print_counters(std::ostream& out, const Problem& problem, const VariantResult& result) {
  const Measurement& measurement = *result.measurement();
  if (!measurement.counters) {
    line(out, "counters", "none", measurement.counters_missing_because);
    return;
  }
  const Counters& counters = *measurement.counters;
  const long long compulsory = compulsory_sectors(problem);
  line(out, "demanded of L2", grouped_text(counters.sectors_demanded),
       "read sectors, " + with_bytes(counters.sectors_demanded));
  line(out, "L2 misses", grouped_text(counters.l2_misses),
       "of " + grouped_text(counters.l2_lookups) + " lookups");
  line(out, "compulsory", grouped_text(compulsory), with_bytes(compulsory));
  if (const auto excess = excess_miss_sectors(problem, result)) {
    line(out, "excess", grouped_text(*excess),
         with_bytes(*excess) + ", fetched again after eviction");
  }
  line(out, "memory read, written", bytes_text(counters.dram_read_bytes),
       bytes_text(counters.dram_write_bytes));
}

}  // namespace

/// One line: name, value, remark.
void line(std::ostream& out, std::string name, const std::string& value,
          const std::string& remark) {
  constexpr std::size_t kNameWidth = 26;
  constexpr std::size_t kValueWidth = 14;
  name.resize(kNameWidth, ' ');
  const std::size_t pad = value.size() < kValueWidth ? kValueWidth - value.size() : 0;
  out << "  " << name << std::string(pad, ' ') << value << (remark.empty() ? "" : "  " + remark)
      << "\n";
}

std::string with_bytes(long long sectors) { return bytes_text(sectors * kSectorBytes); }

void print_measured(std::ostream& out, const Problem& problem, const VariantResult& result,
                    double predicted_us) {
  const Measurement* measurement = result.measurement();
  if (measurement == nullptr) {
    return;
  }
  out << "measured, " << to_string(measurement->l2_state) << " L2\n";
  line(out, "time", time_text(measurement->median_us),
       "median; p95 " + time_text(measurement->p95_us));
  line(out, "predicted time", time_text(predicted_us),
       change_text(measurement->median_us, predicted_us) + " against the measured");
  print_counters(out, problem, result);
}

void print_roofline(std::ostream& out, const Problem& problem, const VariantResult& result,
                    const GpuProfile& profile) {
  const Roofline roof = roofline(problem, result, profile);
  const double intensity = roof.observed_intensity.value_or(roof.algorithmic_intensity);
  out << "roofline (" << to_string(result.provenance()) << ", roofs of profile " << profile.id
      << ")\n";
  line(out, "rate", significant_text(roof.tflop_per_s, 4),
       "TFLOP/s of " + significant_text(roof.roof_tflop_per_s(intensity), 4) +
           " under the roof there");
  line(out, "intensity, algorithmic", significant_text(roof.algorithmic_intensity, 4),
       "FLOP per compulsory byte");
  line(out, "intensity, observed",
       roof.observed_intensity ? significant_text(*roof.observed_intensity, 4) : "unknown",
       "FLOP per byte of memory");
  line(out, "vertical gap", significant_text(roof.vertical_gap(), 3), "times below the roof");
  line(out, "horizontal gap",
       roof.horizontal_gap() ? significant_text(*roof.horizontal_gap(), 3) : "unknown",
       "times the compulsory bytes");
  for (const UnitUse& unit : unit_use(problem, result, profile)) {
    line(out, unit.unit, percent_text(unit.share), "of the time, at full rate");
  }
}

void print_words(std::ostream& out, const Problem& problem, const VariantResult& result,
                 const GpuProfile& profile) {
  out << "what limits it\n";
  for (const std::string& sentence : limits_in_words(problem, result, profile)) {
    out << "  " << sentence << "\n";
  }
  out << "what to try next\n";
  for (const std::string& sentence : next_steps_in_words(problem, result, profile)) {
    out << "  " << sentence << "\n";
  }
}

}  // namespace swr::cli
