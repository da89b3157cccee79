// SPDX-License-Identifier: MIT
#include "tuner/calibrate/calibrate.h"

#include "driver/devices.h"
#include "tuner/calibrate/calibration_bench.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace swr {
namespace {

constexpr long long kMiB = 1LL << 20;

/// Buffers of the sweep in fifteenths of L2, from what fits into each of two partitions to what
/// fits nowhere: 24 to 128 MiB on an H200.
constexpr std::array kSweepFifteenths{6, 7, 8, 10, 12, 14, 16, 24, 32};

/// Fills a profile field by field and notes each number's source.
class ProfileWriter {
 public:
  ProfileWriter(GpuProfile& profile, const CalibrateOptions& options)
      : profile_(profile), options_(options) {}

  void announce(const std::string& step) const {
    if (options_.progress) {
      options_.progress(step);
    }
  }

  template <typename Number>
  void set(std::string_view field, Number GpuProfile::*member, Number value) {
    profile_.*member = value;
    profile_.sources[std::string(field)] = options_.source;
  }

 private:
  GpuProfile& profile_;
  const CalibrateOptions& options_;
};

void measure_rates(const CalibrationBench& bench, ProfileWriter& writer) {
  writer.announce("rates of FMA, ex2 and mma.sync");
  writer.set("fma_per_clock_per_sm", &GpuProfile::fma_per_clock_per_sm,
             bench.fma_rate().results_per_clock_per_sm);
  writer.set("exp2_per_clock_per_sm", &GpuProfile::exp2_per_clock_per_sm,
             bench.exp2_rate().results_per_clock_per_sm);
  const RateMeasurement mma = bench.mma_rate();
  writer.set("matrix_flop_per_clock_per_sm", &GpuProfile::matrix_flop_per_clock_per_sm,
             mma.results_per_clock_per_sm);
  writer.set("clock_mhz", &GpuProfile::clock_mhz, mma.clock_mhz);
}

void measure_memory(const CalibrationBench& bench, const DeviceInfo& device,
                    ProfileWriter& writer) {
  // An eighth of L2 fits each partition's share; sixteen times L2 leaves nothing to hit.
  const long long in_l2 = device.l2_bytes / 8;
  const long long beyond_l2 = std::min(16 * device.l2_bytes, 1024 * kMiB);
  writer.announce("L2 and DRAM bandwidth");
  writer.set("l2_gb_per_s", &GpuProfile::l2_gb_per_s, bench.l2_gb_per_s(in_l2));
  writer.set("dram_efficiency", &GpuProfile::dram_efficiency,
             std::min(1.0, bench.dram_gb_per_s(beyond_l2) / device.dram_gb_per_s));
  writer.announce("L2 and DRAM latency");
  writer.set("l2_latency_clocks", &GpuProfile::l2_latency_clocks, bench.l2_latency_clocks(in_l2));
  writer.set("dram_latency_clocks", &GpuProfile::dram_latency_clocks,
             bench.dram_latency_clocks(beyond_l2));
}

std::vector<SweepPoint> measure_sweep(const CalibrationBench& bench, const DeviceInfo& device,
                                      const ProfileWriter& writer) {
  std::vector<SweepPoint> points;
  for (const int fifteenths : kSweepFifteenths) {
    const long long bytes = device.l2_bytes * fifteenths / 15 / kMiB * kMiB;
    writer.announce("sweep of " + std::to_string(bytes / kMiB) + " MiB");
    for (const bool sawtooth : {false, true}) {
      const SweepMeasurement measured = bench.sweep(bytes, kSweepRounds, sawtooth);
      points.push_back({bytes, sawtooth, measured.time_us, measured.dram_read_bytes});
    }
  }
  return points;
}

/// As one launch showed them: the GPC that the first CTAs go to differs between launches.
void measure_l2_partitions(const CalibrationBench& bench, GpuProfile& profile,
                           const ProfileWriter& writer, const std::string& source) {
  writer.announce("partitions of L2");
  profile.l2_partition_runs = partition_runs(bench.atomic_latencies());
  profile.sources["l2_sets"] = "partition_runs " + source + "; ways of the nearest profile";
}

}  // namespace

Calibration calibrate(const Generator& generator, const CalibrateOptions& options) {
  const DeviceInfo device = list_devices().at(static_cast<std::size_t>(options.device_ordinal));
  Calibration result;
  result.profile = profile_for_device(device);
  result.profile.id = options.id;
  ProfileWriter writer(result.profile, options);
  writer.announce("compiling");
  const CalibrationBench bench(generator, device, options.device_ordinal);
  measure_rates(bench, writer);
  measure_memory(bench, device, writer);
  result.sweep = measure_sweep(bench, device, writer);
  if (const auto l2_bytes = fitted_l2_bytes(result.sweep)) {
    writer.set("l2_effective_bytes", &GpuProfile::l2_effective_bytes,
               std::min(*l2_bytes, device.l2_bytes));
  } else {
    result.incomplete_because =
        "l2_effective_bytes was not measured and comes from the nearest profile: " +
        (bench.no_counters_because().empty() ? "no sweep missed L2 in full"
                                             : bench.no_counters_because());
  }
  measure_l2_partitions(bench, result.profile, writer, options.source);
  return result;
}

}  // namespace swr
