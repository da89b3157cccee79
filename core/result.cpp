// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include "core/operation.h"
#include "core/reject.h"
#include "core/shape_distance.h"
#include "templates/common/cta_schedule.h"
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/result.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace swr {

void require_described(const DeviceInfo& device) {
  const std::array<std::pair<const char*, long long>, 8> numbers{{
      {"sm_arch", device.sm_arch},
      {"sm_count", device.sm_count},
      {"l2_bytes", device.l2_bytes},
      {"smem_per_cta_bytes", device.smem_per_cta_bytes},
      {"smem_per_sm_bytes", device.smem_per_sm_bytes},
      {"registers_per_sm", device.registers_per_sm},
      {"max_threads_per_sm", device.max_threads_per_sm},
      {"max_ctas_per_sm", device.max_ctas_per_sm},
  }};
  std::string missing;
  for (const auto& [name, number] : numbers) {
    if (number <= 0) {
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
  }
  if (!missing.empty()) {
    reject("device " + (device.name.empty() ? std::string("without a name") : device.name) +
           " lacks " + missing +
           "; take it from present_device() or profiled_device(), which fill everything");
  }
}

bool same_device(const DeviceInfo& a, const DeviceInfo& b) {
  const auto point = [](const DeviceInfo& device) {
    return DevicePoint{device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s,
                       device.mig};
  };
  return is_same_device(point(a), point(b));
}

namespace {

using namespace std::string_view_literals;

constexpr std::array kProvenances{"measured"sv, "predicted"sv};
constexpr std::array kStates{"ok"sv,          "compile"sv, "constraint"sv,
                             "launch"sv,      "runtime"sv, "timeout"sv,
                             "correctness"sv, "crash"sv,   "throttled"sv};

constexpr std::array kL2States{"warm"sv, "cold"sv};
constexpr std::array kSamplings{"screening"sv, "finals"sv};

}  // namespace

std::string_view to_string(Provenance value) { return enum_text(kProvenances, value); }
std::string_view to_string(ResultState value) { return enum_text(kStates, value); }
std::string_view to_string(L2State value) { return enum_text<L2State>(kL2States, value); }
std::string_view to_string(Sampling value) { return enum_text<Sampling>(kSamplings, value); }

Provenance parse_provenance(std::string_view text) {
  return parse_enum<Provenance>(kProvenances, text, "provenance");
}

ResultState parse_result_state(std::string_view text) {
  return parse_enum<ResultState>(kStates, text, "result state");
}

L2State parse_l2_state(std::string_view text) {
  return parse_enum<L2State>(kL2States, text, "L2 state");
}

Sampling parse_sampling(std::string_view text) {
  return parse_enum<Sampling>(kSamplings, text, "sampling");
}

double Energy::mean_mj() const {
  return std::accumulate(samples_mj.begin(), samples_mj.end(), 0.0) /
         static_cast<double>(samples_mj.size());
}

double Energy::power_w() const {
  constexpr double kMicrosecondsPerMillisecond = 1e3;
  return mean_mj() / launch_us * kMicrosecondsPerMillisecond;
}

std::optional<long long> l2_sectors(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->read_sectors + prediction->write_sectors;
  }
  const auto& counters = result.measurement()->counters;
  return counters ? std::optional(counters->sectors_demanded) : std::nullopt;
}

std::optional<long long> excess_miss_sectors(const Problem& problem, const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->excess_misses;
  }
  const Measurement& measurement = *result.measurement();
  const auto& counters = measurement.counters;
  if (!counters || !measurement.counters_missing_because.empty()) {
    return std::nullopt;
  }
  return excess_read_sectors(problem, counters->dram_read_bytes);
}

long long excess_read_sectors(const Problem& problem, long long dram_read_bytes) {
  return std::max(0LL, dram_read_bytes - compulsory_bytes(problem).read) / kSectorBytes;
}

long long compulsory_sectors(const Problem& problem) {
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  return (bytes.read + bytes.write) / kSectorBytes;
}

namespace {

constexpr int round_up(int value, int granularity) {
  return ceil_div(value, granularity) * granularity;
}

}  // namespace

const FamilySource& family_source(const Operation& operation, Family family) {
  return *std::ranges::find(operation.families(), family, &FamilySource::family);
}

Variant kernel_of(const Variant& variant) {
  return variant.operation().without_launch_choices(variant);
}

int smem_bytes(const Problem& problem, const Variant& variant) {
  require_same_operation(problem, variant);
  return problem.operation().smem_bytes(problem, variant);
}

int threads_per_cta(const Problem& problem, const Variant& variant) {
  require_same_operation(problem, variant);
  return problem.operation().threads_per_cta(problem, variant);
}

Occupancy occupancy(const KernelResources& resources, const Problem& problem,
                    const Variant& variant, const DeviceInfo& device) {
  constexpr int kRegisterUnitPerWarp = 256;
  constexpr int kSmemUnitBytes = 128;
  constexpr int kSchedulersPerSm = 4;
  const int threads = threads_per_cta(problem, variant);
  const int cta_warps = ceil_div(threads, 32);
  // A file may say that a kernel takes none; a warp has one unit at least.
  const int warp_registers =
      round_up(std::max(resources.registers_per_thread, 1) * 32, kRegisterUnitPerWarp);
  const int cta_smem = round_up(smem_bytes(problem, variant) + resources.static_smem_bytes +
                                    device.smem_reserved_per_cta_bytes,
                                kSmemUnitBytes);
  const int warps = device.registers_per_sm / kSchedulersPerSm / warp_registers * kSchedulersPerSm;
  const std::array<Occupancy, 4> limits{{
      {warps / cta_warps, "registers"},
      {device.smem_per_sm_bytes / cta_smem, "shared memory"},
      {device.max_threads_per_sm / threads, "threads"},
      {device.max_ctas_per_sm, "CTA slots"},
  }};
  return *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
    return a.ctas_per_sm < b.ctas_per_sm;
  });
}

LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                               int ctas_per_sm) {
  require_same_operation(problem, variant);
  return problem.operation().launch_geometry(problem, variant, sm_count, ctas_per_sm);
}

}  // namespace swr
