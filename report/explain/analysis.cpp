// SPDX-License-Identifier: MIT
#include "report/explain/analysis.h"

#include "core/architectures.h"
#include "core/metrics.h"
#include "core/number_text.h"
#include "core/operation.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

/// Of wgmma, dense fp16 or bf16 with fp32 accumulation: 989.4 TFLOP/s of the H100 SXM data sheet
/// over 132 SMs and 1830 MHz.
constexpr double kWgmmaFlopPerClockPerSm = 4096.0;

/// Of the type that the problem multiplies.
double peak_tflop_per_s(const Problem& problem, const VariantResult& result,
                        const GpuProfile& profile) {
  const Family family = family_of(result.variant);
  const Field* const dtype = find_field(problem.operation(), "dtype");
  const std::string type =
      dtype != nullptr && dtype->is_text() ? field_text(problem, *dtype) : std::string();
  const bool has_fp8 = type == "e4m3" || type == "e5m2";
  const double of_fp8 =
      family == Family::hopper ? 2.0 : fp8_rate(DType::e4m3, profile.device.sm_arch);
  return swr::peak_tflop_per_s(family, profile) * (has_fp8 ? of_fp8 : 1.0);
}

/// A unit that is used less does not bound a kernel by its rate.
constexpr double kBusyShare = 0.6;
/// Gaps below this are within what models and clocks leave open.
constexpr double kNoticeableGap = 1.05;
/// Bytes that take less of the time than this cannot be what it is spent on: other units hide them.
constexpr double kVisibleShare = 0.1;
/// Warps of an SM that hide each other's latency: two for each of its four schedulers.
constexpr int kFewWarpsPerSm = 8;

constexpr const char* kUnsaid = "as the spec says no flops and bytes of these sizes";

/// What any schedule moves: inputs and output once each. 0 where that is not known.
double least_bytes(const Problem& problem) {
  const CompulsoryBytes least = compulsory_bytes(problem);
  return static_cast<double>(least.read + least.write);
}

double per_second(double amount, double time_us) { return amount / time_us * 1e6; }

double bandwidth_gb_per_s(const GpuProfile& profile) {
  return profile.device.dram_gb_per_s * profile.dram_efficiency;
}

std::string times_text(double factor) { return significant_text(factor, 3) + " times"; }

std::string rate_text(double tflop_per_s) { return significant_text(tflop_per_s, 4) + " TFLOP/s"; }

std::string provenance_text(const VariantResult& result) {
  return std::string(to_string(result.provenance()));
}

/// Shares of launched places that the last wave leaves empty; 0 for launches that fill them by
/// construction.
double empty_share(const Problem& problem, const VariantResult& result, const DeviceInfo& device) {
  const double waves = launch_waves(problem, result, device);
  return waves > 0.0 ? 1.0 - waves / std::ceil(waves) : 0.0;
}

std::string occupancy_sentence(const Problem& problem, const VariantResult& result,
                               const DeviceInfo& device) {
  const Occupancy fit = occupancy(result.resources, problem, result.variant, device);
  return "CTAs per SM: " + std::to_string(result.ctas_per_sm) + " (limited by " + fit.limited_by +
         "), " + significant_text(launch_waves(problem, result, device), 3) + " waves of CTAs.";
}

std::string products_sentence(const Roofline& roof, const VariantResult& result) {
  return rate_text(roof.tflop_per_s) + " of the " + rate_text(roof.peak_tflop_per_s) +
         (family_of(result.variant) == Family::hopper ? " of wgmma" : " of mma.sync") + " (" +
         percent_text(roof.tflop_per_s / roof.peak_tflop_per_s) + ").";
}

std::string bytes_sentence(double gb_per_s, double most_gb_per_s) {
  return "Inputs and outputs pass at " + significant_text(gb_per_s, 4) + " GB/s of the " +
         significant_text(most_gb_per_s, 4) + " GB/s that memory gives (" +
         percent_text(gb_per_s / most_gb_per_s) + ").";
}

/// Knobs that move the result up at its intensity.
void add_vertical_steps(const Problem& problem, const VariantResult& result,
                        const GpuProfile& profile, std::vector<std::string>& steps) {
  const auto roof = roofline(problem, result, profile);
  if (roof && roof->vertical_gap() < kNoticeableGap) {
    steps.push_back("Vertical gap: none worth a search; the roof is " +
                    times_text(roof->vertical_gap()) + " the rate reached.");
    return;
  }
  const std::string head = roof ? "Vertical gap of " + times_text(roof->vertical_gap()) + ": "
                                : std::string("Vertical gap unknown, ") + kUnsaid + ": ";
  const DeviceInfo& device = profile.device;
  const Advice& advice = problem.operation().advice();
  const int warps = result.ctas_per_sm * problem.operation().computing_warps(result.variant);
  const double empty = empty_share(problem, result, device);
  if (result.resources.spill_store_bytes + result.resources.spill_load_bytes > 0) {
    steps.push_back(head + "registers spill; a smaller tile keeps them.");
  } else if (launch_waves(problem, result, device) < 0.9) {
    steps.push_back(head + "the launch fills only " + percent_text(1.0 - empty) +
                    " of the GPU's slots for CTAs; " + std::string(advice.more_ctas) + ".");
  } else if (empty > 0.1) {
    steps.push_back(head + "the last wave leaves " + percent_text(empty) +
                    " of its places empty; " + std::string(advice.fuller_waves) + ".");
  } else if (warps < kFewWarpsPerSm) {
    steps.push_back(head + "only " + std::to_string(warps) +
                    " computing warps share an SM (limited by " +
                    occupancy(result.resources, problem, result.variant, device).limited_by +
                    "); a smaller tile or fewer stages admit more.");
  } else if (family_of(result.variant) == Family::hopper) {
    steps.push_back(head + std::string(advice.hopper) + ".");
  } else {
    const bool has_hopper = problem.operation().families().size() > 1;
    steps.push_back(head + std::string(advice.portable) +
                    (has_hopper && device.sm_arch == kHopperArch
                         ? ", and --family hopper, whose instruction is faster."
                         : "."));
  }
}

/// Time that memory needs at full rate over the result's. Requires: its bytes are known.
double memory_share(const VariantResult& result, const GpuProfile& profile) {
  return per_second(static_cast<double>(*dram_bytes(result)), result.time_us()) / 1e9 /
         bandwidth_gb_per_s(profile);
}

/// Knobs that move the result right: fewer bytes for the same work.
void add_horizontal_step(const Problem& problem, const VariantResult& result,
                         const GpuProfile& profile, std::vector<std::string>& steps) {
  const auto roof = roofline(problem, result, profile);
  if (!roof) {
    steps.push_back(std::string("Horizontal gap: unknown, ") + kUnsaid + ".");
    return;
  }
  const auto gap = roof->horizontal_gap();
  const auto excess = excess_miss_sectors(problem, result);
  const Advice& advice = problem.operation().advice();
  if (!gap) {
    steps.push_back(
        "Horizontal gap: unknown, the bytes of memory were not counted; measure with counters.");
  } else if (*gap < kNoticeableGap || !excess || *excess == 0) {
    steps.push_back(std::string("Horizontal gap: none, ") +
                    (*gap < 1.0 / kNoticeableGap ? "the L2 still held data from the launch before"
                                                 : "memory moved what the problem needs at least") +
                    "; neither order nor swizzle can save bytes.");
  } else if (memory_share(result, profile) < kVisibleShare) {
    // Their bytes take no time that anybody could see; waiting for them may.
    steps.push_back(
        "Horizontal gap of " + times_text(*gap) + ": " + bytes_text(*excess * kSectorBytes) +
        " were fetched again. Memory is busy for " + percent_text(memory_share(result, profile)) +
        " of the time, so only waiting for them can cost any.");
  } else {
    steps.push_back("Horizontal gap of " + times_text(*gap) + ": " +
                    bytes_text(*excess * kSectorBytes) + " were fetched again; " +
                    (order_of(result.variant) == Order::sawtooth
                         ? std::string(advice.fewer_passes)
                         : std::string(advice.fewer_misses)) +
                    ".");
  }
}

}  // namespace

double Roofline::roof_tflop_per_s(double intensity) const {
  return std::min(peak_tflop_per_s, intensity * dram_gb_per_s / 1e3);
}

double Roofline::vertical_gap() const {
  return roof_tflop_per_s(observed_intensity.value_or(algorithmic_intensity)) / tflop_per_s;
}

std::optional<double> Roofline::horizontal_gap() const {
  return observed_intensity ? std::optional(algorithmic_intensity / *observed_intensity)
                            : std::nullopt;
}

double peak_tflop_per_s(Family family, const GpuProfile& profile) {
  const double flop_per_clock =
      family == Family::hopper ? kWgmmaFlopPerClockPerSm : profile.matrix_flop_per_clock_per_sm;
  return flop_per_clock * profile.device.sm_count * profile.clock_mhz / 1e6;
}

std::optional<long long> dram_bytes(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return (prediction->compulsory_misses + prediction->excess_misses) * kSectorBytes;
  }
  const auto& counters = result.measurement()->counters;
  const bool counted = counters && counters->dram_read_bytes > 0;
  return counted ? std::optional(counters->dram_read_bytes + counters->dram_write_bytes)
                 : std::nullopt;
}

std::optional<Roofline> roofline(const Problem& problem, const VariantResult& result,
                                 const GpuProfile& profile) {
  const double flop = flop_count(problem);
  const double bytes = least_bytes(problem);
  const auto rate = tflop_per_s(problem, result);
  if (!rate || !(bytes > 0.0)) {
    return std::nullopt;
  }
  Roofline roof{.peak_tflop_per_s = peak_tflop_per_s(problem, result, profile),
                .dram_gb_per_s = bandwidth_gb_per_s(profile),
                .tflop_per_s = *rate,
                .algorithmic_intensity = flop / bytes,
                .observed_intensity = std::nullopt};
  const auto moved = dram_bytes(result);
  if (moved && *moved > 0) {
    roof.observed_intensity = flop / static_cast<double>(*moved);
  }
  return roof;
}

std::vector<UnitUse> unit_use(const Problem& problem, const VariantResult& result,
                              const GpuProfile& profile) {
  const double time_us = result.time_us();
  std::vector<UnitUse> use;
  const auto rate = tflop_per_s(problem, result);
  if (rate && problem.operation().multiplies_matrices()) {
    use.push_back({"tensor cores", *rate / peak_tflop_per_s(problem, result, profile)});
  }
  if (const double exponentials = problem.operation().exponential_count(problem);
      exponentials > 0.0) {
    const double exp2_per_s =
        profile.exp2_per_clock_per_sm * profile.device.sm_count * profile.clock_mhz * 1e6;
    use.push_back({"exponentials", per_second(exponentials, time_us) / exp2_per_s});
  }
  if (const auto sectors = l2_sectors(result)) {
    use.push_back(
        {"L2 bandwidth", per_second(static_cast<double>(*sectors * kSectorBytes), time_us) / 1e9 /
                             profile.l2_gb_per_s});
  }
  if (const auto bytes = dram_bytes(result)) {
    use.push_back({"memory bandwidth", per_second(static_cast<double>(*bytes), time_us) / 1e9 /
                                           bandwidth_gb_per_s(profile)});
  }
  std::ranges::sort(use, std::ranges::greater{}, &UnitUse::share);
  return use;
}

double launch_waves(const Problem& problem, const VariantResult& result, const DeviceInfo& device) {
  if (result.ctas_per_sm < 1) {
    return 0.0;
  }
  const LaunchGeometry launch =
      launch_geometry(problem, result.variant, device.sm_count, result.ctas_per_sm);
  return launch.grid_x / (static_cast<double>(device.sm_count) * result.ctas_per_sm);
}

std::vector<std::string> limits_in_words(const Problem& problem, const VariantResult& result,
                                         const GpuProfile& profile) {
  const auto roof = roofline(problem, result, profile);
  const auto use = unit_use(problem, result, profile);
  const UnitUse busiest = use.empty() ? UnitUse{"none whose work is known"} : use.front();
  std::vector<std::string> sentences;
  sentences.push_back(
      busiest.share >= kBusyShare
          ? "Bound by " + busiest.unit + ": at full rate the work takes " +
                percent_text(busiest.share) + " of the " + provenance_text(result) + " time."
          : "No unit is busy for " + percent_text(kBusyShare) +
                " of the time, so latency bounds it (waiting, barriers, tails, issue slots); the "
                "busiest: " +
                busiest.unit + " with " + percent_text(busiest.share) + ".");
  if (roof && problem.operation().multiplies_matrices()) {
    sentences.push_back(products_sentence(*roof, result));
  } else if (const double bytes = least_bytes(problem); bytes > 0.0) {
    sentences.push_back(
        bytes_sentence(per_second(bytes, result.time_us()) / 1e9, bandwidth_gb_per_s(profile)));
  }
  if (result.ctas_per_sm > 0) {
    sentences.push_back(occupancy_sentence(problem, result, profile.device));
  }
  return sentences;
}

std::vector<std::string> next_steps_in_words(const Problem& problem, const VariantResult& result,
                                             const GpuProfile& profile) {
  std::vector<std::string> steps;
  const auto roof = roofline(problem, result, profile);
  const bool memory_bound = roof && roof->roof_tflop_per_s(roof->observed_intensity.value_or(
                                        roof->algorithmic_intensity)) < roof->peak_tflop_per_s;
  add_horizontal_step(problem, result, profile, steps);
  add_vertical_steps(problem, result, profile, steps);
  if (!memory_bound) {
    std::ranges::reverse(steps);
  }
  return steps;
}

}  // namespace swr
