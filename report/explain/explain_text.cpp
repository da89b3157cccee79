// SPDX-License-Identifier: MIT
#include "report/explain/explain_text.h"

#include "core/number_text.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"

#include <algorithm>
#include <cmath>
#include <ostream>

namespace swr {
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

/// Nothing where nobody has tried to measure it.
void print_energy(std::ostream& out, const Measurement& measurement) {
  if (const auto& energy = measurement.energy) {
    line(out, "energy", significant_text(energy->mean_mj(), 4) + " mJ",
         "of a launch, at " + significant_text(energy->power_w(), 3) + " W and " +
             time_text(energy->launch_us) + " under sustained load; idle " +
             significant_text(energy->idle_power_w, 3) + " W, which is in it");
  } else if (!measurement.energy_missing_because.empty()) {
    line(out, "energy", "unknown", measurement.energy_missing_because);
  }
}

/// A share as a bar.
std::string bar(double share) {
  constexpr std::size_t kWidth = 10;
  const auto filled = static_cast<std::size_t>(
      std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(kWidth)));
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]";
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
  print_energy(out, *measurement);
  print_counters(out, problem, result);
}

void print_accesses(std::ostream& out, const Problem& problem, const VariantResult& result) {
  const std::string unknown = accesses_unknown_because(result);
  if (!unknown.empty()) {
    out << "memory accesses\n";
    line(out, "bank conflicts", "not counted", unknown);
    line(out, "coalescing", "not counted");
    return;
  }
  const Measurement& measurement = *result.measurement();
  out << "memory accesses (measured, by hardware counter)\n";
  for (const SmemAccess& one : smem_accesses(*measurement.accesses)) {
    const double conflicts = one.conflicts_per_wavefront();
    line(out, "shared, " + std::string(one.kind), significant_text(conflicts, 4),
         bar(conflicts) + " conflicts per wavefront, 0 is best; " + grouped_text(one.conflicts) +
             " of " + grouped_text(one.wavefronts) + "; " + std::string(one.covers));
  }
  for (const GlobalAccess& one : global_accesses(*measurement.accesses)) {
    const double used = one.bytes_per_sector();
    line(out, "global, " + std::string(one.kind), significant_text(used, 3),
         bar(used / kSectorBytes) + " bytes used per sector of 32; " +
             significant_text(one.sectors_per_request(), 3) + " sectors per request, " +
             grouped_text(one.sectors) + " sectors; " + std::string(one.covers));
  }
  if (const auto sectors = measurement.accesses->tma_load_sectors; sectors && *sectors > 0) {
    line(out, "global, TMA", grouped_text(*sectors), "sectors that the copy engine read");
  }
  line(out, "not covered", "", std::string(uncovered_accesses()));
  if (!measurement.accesses_missing_because.empty()) {
    line(out, "not counted", "", measurement.accesses_missing_because);
  }
  for (const std::string& step : access_steps_in_words(problem, result)) {
    out << "  " << step << "\n";
  }
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

}  // namespace swr
