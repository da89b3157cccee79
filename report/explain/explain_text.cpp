// SPDX-License-Identifier: MIT
#include "report/explain/explain_text.h"

#include "core/number_text.h"
#include "core/operation.h"
#include "core/reject.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"

#include <algorithm>
#include <cmath>
#include <ostream>

namespace swr {
namespace {

/// One line: name, value, remark.
void line(std::ostream& out, std::string name, const std::string& value,
          const std::string& remark = "") {
  constexpr std::size_t kNameWidth = 26;
  constexpr std::size_t kValueWidth = 14;
  name.resize(kNameWidth, ' ');
  const std::size_t pad = value.size() < kValueWidth ? kValueWidth - value.size() : 0;
  out << "  " << name << std::string(pad, ' ') << value << (remark.empty() ? "" : "  " + remark)
      << "\n";
}

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

void print_rows(std::ostream& out, const std::string& title, const Rows& rows) {
  out << title << "\n";
  for (const Row& row : rows) {
    line(out, row.name, row.value, row.remark);
  }
}

long long total_bytes(std::span<const NamedBytes> buffers) {
  long long total = 0;
  for (const NamedBytes& buffer : buffers) {
    total += buffer.bytes;
  }
  return total;
}

int ctas_by_smem(long long smem_bytes, const DeviceInfo& device) {
  constexpr long long kUnitBytes = 128;  // CUDA occupancy calculator, as in occupancy().
  const long long wanted = smem_bytes + device.smem_reserved_per_cta_bytes;
  return static_cast<int>(device.smem_per_sm_bytes /
                          ((wanted + kUnitBytes - 1) / kUnitBytes * kUnitBytes));
}

double Explained::occupancy() const {
  return static_cast<double>(threads) * fit.ctas_per_sm / request.profile.device.max_threads_per_sm;
}

Explained explained(const ExplainRequest& request) {
  const auto& [problem, profile, subject] = request;
  Explained all{.request = request,
                .fit = occupancy(subject.resources, problem, subject.variant, profile.device)};
  if (all.fit.ctas_per_sm < 1) {
    reject("no CTA of " + to_key(subject.variant) + " fits an SM of " + profile.device.name +
           ", limited by " + all.fit.limited_by + "; choose a smaller tile or fewer stages");
  }
  return all;
}

VariantResult known_result(const Explained& all, const Prediction& prediction, int smem_bytes) {
  const ExplainSubject& subject = all.request.subject;
  if (subject.measured) {
    return *subject.measured;
  }
  VariantResult result;
  result.variant = subject.variant;
  result.resources = subject.resources;
  result.smem_bytes = smem_bytes;
  result.ctas_per_sm = all.fit.ctas_per_sm;
  result.outcome = prediction;
  return result;
}

void print_subject(std::ostream& out, const Explained& all) {
  const auto& [problem, profile, subject] = all.request;
  out << "problem  " << to_string(problem) << " on " << describe(profile.device) << ", "
      << to_string(all.result.provenance()) << "\n"
      << "variant  " << describe(subject.variant) << " (" << subject.chosen << ")\n"
      << "key      " << to_key(subject.variant) << "\n";
}

Rows launch_rows(const Explained& all) {
  const KernelResources& resources = all.result.resources;
  return {{"registers per thread", std::to_string(resources.registers_per_thread)},
          {"spills", std::to_string(resources.spill_store_bytes + resources.spill_load_bytes),
           "bytes per thread, stores and loads"},
          {"threads", std::to_string(all.threads), "per CTA"},
          {"CTAs per SM", std::to_string(all.fit.ctas_per_sm), "limited by " + all.fit.limited_by},
          {"occupancy", percent_text(all.occupancy()), "of the threads an SM holds at most"},
          {"CTAs", grouped_text(all.ctas), "the grid"}};
}

void print_smem(std::ostream& out, const Explained& all, const Rows& more) {
  Rows rows;
  for (const NamedBytes& buffer : all.buffers) {
    rows.push_back({buffer.name, grouped_text(buffer.bytes), "bytes"});
  }
  const long long together = total_bytes(all.buffers);
  rows.push_back({"together", grouped_text(together),
                  "bytes; alone it would admit " +
                      std::to_string(ctas_by_smem(together, all.request.profile.device)) +
                      " CTAs per SM"});
  rows.insert(rows.end(), more.begin(), more.end());
  print_rows(out, "shared memory of a CTA", rows);
}

Rows traffic_rows(long long demanded, long long compulsory, long long excess) {
  return {{"demanded of L2", grouped_text(demanded), with_bytes(demanded)},
          {"compulsory misses", grouped_text(compulsory), with_bytes(compulsory)},
          {"capacity misses", grouped_text(excess),
           with_bytes(excess) + ", fetched again after eviction"}};
}

std::string uncertainty_text(double relative_error) {
  return relative_error > 0 ? "; uncertain by " + percent_text(relative_error) : "";
}

Row effective_l2_row(const GpuProfile& profile) {
  return {"L2, effective", bytes_text(profile.l2_effective_bytes),
          "of " + bytes_text(profile.device.l2_bytes)};
}

Row all_misses_row(long long sectors) {
  return {"all misses (DRAM)", grouped_text(sectors), with_bytes(sectors)};
}

Json subject_json(const Explained& all) {
  const auto& [problem, profile, subject] = all.request;
  return {{"provenance", std::string(to_string(all.result.provenance()))},
          {"problem", problem},
          {"device", profile.device},
          {"profile", profile.id},
          {"variant", subject.variant},
          {"key", to_key(subject.variant)},
          {"chosen", subject.chosen},
          {"resources", all.result.resources}};
}

void add_launch_json(const Explained& all, Json& json) {
  json["threads"] = all.threads;
  json["occupancy"] = all.occupancy();
  json["ctas_per_sm"] = all.fit.ctas_per_sm;
  json["limited_by"] = all.fit.limited_by;
  json["ctas"] = all.ctas;
  json["waves"] = all.waves;
}

Json buffers_json(const Explained& all) {
  Json buffers = Json::object();
  for (const NamedBytes& buffer : all.buffers) {
    buffers[buffer.name] = buffer.bytes;
  }
  return buffers;
}

Json roofline_json(const Explained& all) {
  const auto roof = roofline(all.request.problem, all.result, all.request.profile);
  if (!roof) {
    return {};
  }
  const auto or_null = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  return {{"tflop_per_s", roof->tflop_per_s},
          {"peak_tflop_per_s", roof->peak_tflop_per_s},
          {"dram_gb_per_s", roof->dram_gb_per_s},
          {"algorithmic_intensity", roof->algorithmic_intensity},
          {"observed_intensity", or_null(roof->observed_intensity)},
          {"vertical_gap", roof->vertical_gap()},
          {"horizontal_gap", or_null(roof->horizontal_gap())}};
}

void add_words_json(const Explained& all, Json& json) {
  const auto& [problem, profile, subject] = all.request;
  json["limits"] = limits_in_words(problem, all.result, profile);
  json["next"] = next_steps_in_words(problem, all.result, profile);
}

std::string with_bytes(long long sectors) { return bytes_text(sectors * kSectorBytes); }

void print_measured(std::ostream& out, const Explained& all, double predicted_us) {
  const VariantResult& result = all.result;
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
  print_counters(out, all.request.problem, result);
}

void print_accesses(std::ostream& out, const Explained& all) {
  const VariantResult& result = all.result;
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
  for (const std::string& step : access_steps_in_words(all.request.problem, result)) {
    out << "  " << step << "\n";
  }
}

namespace {

void print_roofline(std::ostream& out, const Roofline& roof) {
  const double intensity = roof.observed_intensity.value_or(roof.algorithmic_intensity);
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
}

}  // namespace

void print_limits(std::ostream& out, const Explained& all) {
  const auto& [problem, profile, subject] = all.request;
  const VariantResult& result = all.result;
  out << "roofline (" << to_string(result.provenance()) << ", roofs of profile " << profile.id
      << ")\n";
  if (const auto roof = roofline(problem, result, profile)) {
    print_roofline(out, *roof);
  } else {
    line(out, "rate", "unknown", "as the spec says no flops and bytes of these sizes");
  }
  for (const UnitUse& unit : unit_use(problem, result, profile)) {
    line(out, unit.unit, percent_text(unit.share), "of the time, at full rate");
  }
  out << "what limits it\n";
  for (const std::string& sentence : limits_in_words(problem, result, profile)) {
    out << "  " << sentence << "\n";
  }
  out << "what to try next\n";
  for (const std::string& sentence : next_steps_in_words(problem, result, profile)) {
    out << "  " << sentence << "\n";
  }
}

std::optional<Variant> in_other_order(Variant variant) {
  const auto order = order_of(variant);
  if (!order) {
    return std::nullopt;
  }
  set_order(variant, *order == Order::sawtooth ? Order::cyclic : Order::sawtooth);
  return variant;
}

std::string tile_text(const Variant& variant) { return variant.operation().tile_text(variant); }

std::string describe(const Variant& variant) { return variant.operation().description(variant); }

std::string describe(const DeviceInfo& device) {
  return device.name + " (sm_" + std::to_string(device.sm_arch) + ", " +
         std::to_string(device.sm_count) + " SMs, " + bytes_text(device.l2_bytes) + " L2" +
         (device.mig ? ", MIG slice)" : ")");
}

}  // namespace swr
