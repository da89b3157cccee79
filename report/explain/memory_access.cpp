// SPDX-License-Identifier: MIT
#include "report/explain/memory_access.h"

#include "core/number_text.h"
#include "core/operation.h"

#include <algorithm>
#include <array>

namespace swr {
namespace {

using Count = std::optional<long long> AccessCounters::*;

struct SmemKind {
  std::string_view kind;
  std::string_view covers;
  Count wavefronts;
  Count conflicts;
};

constexpr std::array kSmemKinds{
    SmemKind{"loads", "LDS and ldmatrix", &AccessCounters::smem_load_wavefronts,
             &AccessCounters::smem_load_conflicts},
    SmemKind{"stores", "STS and stmatrix", &AccessCounters::smem_store_wavefronts,
             &AccessCounters::smem_store_conflicts},
    SmemKind{"copies", "what cp.async writes", &AccessCounters::smem_copy_wavefronts,
             &AccessCounters::smem_copy_conflicts},
    SmemKind{"wgmma", "operands that wgmma reads", &AccessCounters::smem_wgmma_wavefronts,
             &AccessCounters::smem_wgmma_conflicts}};

struct GlobalKind {
  std::string_view kind;
  std::string_view covers;
  Count requests;
  Count sectors;
  Count bytes;
};

constexpr std::array kGlobalKinds{
    GlobalKind{"loads", "LDG, into registers", &AccessCounters::global_load_requests,
               &AccessCounters::global_load_sectors, &AccessCounters::global_load_bytes},
    GlobalKind{"stores", "STG", &AccessCounters::global_store_requests,
               &AccessCounters::global_store_sectors, &AccessCounters::global_store_bytes},
    GlobalKind{"copies", "what cp.async reads", &AccessCounters::global_copy_requests,
               &AccessCounters::global_copy_sectors, &AccessCounters::global_copy_bytes}};

/// Below it conflicts are what accesses of several clients of the banks cost each other.
constexpr double kNoticeableConflicts = 0.05;
constexpr int kWidestAccessBytes = 16;
/// Above it ends of rows are what is left.
constexpr double kFullSectorBytes = 0.9 * kSectorBytes;

double ratio(long long part, long long whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// The alignment that a problem has, where its operation speaks of one.
int alignment_bytes_of(const Problem& problem) {
  const Field* const field = find_field(problem.operation(), "alignment_bytes");
  return field == nullptr ? kWidestAccessBytes : field->read(problem.members());
}

std::string coalescing_advice(const Problem& problem, const Variant& variant,
                              const GlobalAccess& worst) {
  const int alignment = alignment_bytes_of(problem);
  const Operation& operation = problem.operation();
  if (alignment < kWidestAccessBytes) {
    return "addresses and strides are multiples of " + std::to_string(alignment) +
           " bytes only (--alignment); multiples of 32 fill sectors";
  }
  // Partial sums are written and read again by single elements' owners.
  if (worst.kind == "stores" && operation.is_split(variant)) {
    return "partial sums of splits are among them; try fewer " +
           std::string(operation.advice().splits_option);
  }
  return std::string(operation.advice().fuller_sectors);
}

std::string conflict_sentence(const AccessCounters& accesses, const Variant& variant) {
  const auto kinds = smem_accesses(accesses);
  const double share = conflicts_per_wavefront(accesses).value_or(0.0);
  if (share < kNoticeableConflicts) {
    return "Bank conflicts: none worth a change, " + percent_text(share) + " of the wavefronts.";
  }
  const auto& worst = *std::ranges::max_element(kinds, {}, &SmemAccess::conflicts);
  return "Bank conflicts: " + percent_text(share) + " of the wavefronts, most of them of " +
         std::string(worst.kind) + " (" + std::string(worst.covers) + "); " +
         variant.operation().conflict_advice(variant) + ".";
}

std::string coalescing_sentence(const AccessCounters& accesses, const Problem& problem,
                                const Variant& variant) {
  const double used = *bytes_per_sector(accesses);
  if (used >= kFullSectorBytes) {
    return "Coalescing: nothing to gain, " + significant_text(used, 3) +
           " of the 32 bytes of a sector are used.";
  }
  const auto kinds = global_accesses(accesses);
  const auto wasted = [](const GlobalAccess& one) {
    return one.sectors * kSectorBytes - one.bytes;
  };
  const auto& worst = *std::ranges::max_element(kinds, {}, wasted);
  return "Coalescing: " + significant_text(used, 3) +
         " of the 32 bytes of a sector are used, least by " + std::string(worst.kind) + " (" +
         significant_text(worst.bytes_per_sector(), 3) + "); " +
         coalescing_advice(problem, variant, worst) + ".";
}

}  // namespace

double SmemAccess::conflicts_per_wavefront() const { return ratio(conflicts, wavefronts); }
double GlobalAccess::sectors_per_request() const { return ratio(sectors, requests); }
double GlobalAccess::bytes_per_sector() const { return ratio(bytes, sectors); }

std::vector<SmemAccess> smem_accesses(const AccessCounters& accesses) {
  std::vector<SmemAccess> found;
  for (const SmemKind& kind : kSmemKinds) {
    const auto& wavefronts = accesses.*kind.wavefronts;
    const auto& conflicts = accesses.*kind.conflicts;
    if (wavefronts && conflicts && *wavefronts > 0) {
      found.push_back({kind.kind, kind.covers, *wavefronts, *conflicts});
    }
  }
  return found;
}

std::vector<GlobalAccess> global_accesses(const AccessCounters& accesses) {
  std::vector<GlobalAccess> found;
  for (const GlobalKind& kind : kGlobalKinds) {
    const auto& requests = accesses.*kind.requests;
    const auto& sectors = accesses.*kind.sectors;
    const auto& bytes = accesses.*kind.bytes;
    // Sectors without bytes are what the passes of two counters, one taken out of the other, differ
    // by.
    if (requests && sectors && bytes && *sectors > 0 && *bytes > 0) {
      found.push_back({kind.kind, kind.covers, *requests, *sectors, *bytes});
    }
  }
  return found;
}

std::optional<double> conflicts_per_wavefront(const AccessCounters& accesses) {
  SmemAccess all;
  for (const SmemAccess& one : smem_accesses(accesses)) {
    all.wavefronts += one.wavefronts;
    all.conflicts += one.conflicts;
  }
  return all.wavefronts > 0 ? std::optional(all.conflicts_per_wavefront()) : std::nullopt;
}

std::optional<double> bytes_per_sector(const AccessCounters& accesses) {
  GlobalAccess all;
  for (const GlobalAccess& one : global_accesses(accesses)) {
    all.sectors += one.sectors;
    all.bytes += one.bytes;
  }
  if (all.sectors > 0) {
    const long long whole = accesses.tma_load_sectors.value_or(0);
    all.sectors += whole;
    all.bytes += whole * kSectorBytes;
  }
  return all.sectors > 0 ? std::optional(all.bytes_per_sector()) : std::nullopt;
}

std::string_view uncovered_accesses() {
  return "atomics, distributed shared memory, and what the copy engine (TMA) writes to shared "
         "memory or stores; it asks for whole sectors by design";
}

std::vector<std::string> access_steps_in_words(const Problem& problem,
                                               const VariantResult& result) {
  const AccessCounters& accesses = *result.measurement()->accesses;
  std::vector<std::string> steps;
  if (conflicts_per_wavefront(accesses)) {
    steps.push_back(conflict_sentence(accesses, result.variant));
  }
  if (bytes_per_sector(accesses)) {
    steps.push_back(coalescing_sentence(accesses, problem, result.variant));
  }
  return steps;
}

std::string accesses_unknown_because(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  if (measurement == nullptr) {
    return "nothing was measured";
  }
  if (measurement->accesses) {
    return "";
  }
  return measurement->accesses_missing_because.empty()
             ? "only winners and those near them are counted, at the end of a tuning run"
             : measurement->accesses_missing_because;
}

Json accesses_json(const Problem& problem, const VariantResult& result) {
  if (!accesses_unknown_because(result).empty()) {
    return {};
  }
  const Measurement& measurement = *result.measurement();
  const AccessCounters& accesses = *measurement.accesses;
  Json smem = Json::array();
  for (const SmemAccess& one : smem_accesses(accesses)) {
    smem.push_back({{"kind", one.kind},
                    {"covers", one.covers},
                    {"wavefronts", one.wavefronts},
                    {"conflicts", one.conflicts},
                    {"conflicts_per_wavefront", one.conflicts_per_wavefront()}});
  }
  Json global = Json::array();
  for (const GlobalAccess& one : global_accesses(accesses)) {
    global.push_back({{"kind", one.kind},
                      {"covers", one.covers},
                      {"requests", one.requests},
                      {"sectors", one.sectors},
                      {"bytes", one.bytes},
                      {"sectors_per_request", one.sectors_per_request()},
                      {"bytes_per_sector", one.bytes_per_sector()}});
  }
  const auto conflicts = conflicts_per_wavefront(accesses);
  const auto used = bytes_per_sector(accesses);
  return {
      {"shared", std::move(smem)},
      {"global", std::move(global)},
      {"conflicts_per_wavefront", conflicts ? Json(*conflicts) : Json()},
      {"bytes_per_sector", used ? Json(*used) : Json()},
      {"tma_load_sectors", accesses.tma_load_sectors ? Json(*accesses.tma_load_sectors) : Json()},
      {"not_covered", uncovered_accesses()},
      {"missing", measurement.accesses_missing_because},
      {"next", access_steps_in_words(problem, result)}};
}

}  // namespace swr
