// SPDX-License-Identifier: MIT
#include "tuner/calibrate/calibrate.h"

#include "core/number_text.h"
#include "driver/devices.h"
#include "model/l2/lru_cache.h"
#include "tuner/calibrate/calibration_bench.h"
#include <swr/result.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ostream>
#include <set>
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

namespace {

constexpr int kTileBytes = 16384;

const SweepPoint* find_partner(std::span<const SweepPoint> points, const SweepPoint& cyclic) {
  const auto partner = std::find_if(points.begin(), points.end(), [&](const SweepPoint& point) {
    return point.sawtooth && point.buffer_bytes == cyclic.buffer_bytes;
  });
  return partner == points.end() ? nullptr : &*partner;
}

bool misses_throughout(const SweepPoint& cyclic) {
  constexpr double kNearlyAll = 0.97;
  return !cyclic.sawtooth && cyclic.dram_read_bytes &&
         static_cast<double>(*cyclic.dram_read_bytes) >
             kNearlyAll * kSweepRounds * static_cast<double>(cyclic.buffer_bytes);
}

}  // namespace

long long modelled_sweep_bytes(long long buffer_bytes, bool sawtooth,
                               long long l2_effective_bytes) {
  const int tiles = static_cast<int>(buffer_bytes / kTileBytes);
  LruCache cache(l2_effective_bytes / kSectorBytes, tiles);
  for (int round = 0; round < kSweepRounds; ++round) {
    const bool backward = sawtooth && round % 2 != 0;
    for (int step = 0; step < tiles; ++step) {
      cache.touch(backward ? tiles - 1 - step : step, kTileBytes / kSectorBytes);
    }
  }
  return (cache.compulsory_misses() + cache.excess_misses()) * kSectorBytes;
}

std::optional<long long> fitted_l2_bytes(std::span<const SweepPoint> points) {
  double sum = 0.0;
  int count = 0;
  for (const SweepPoint& cyclic : points) {
    const SweepPoint* sawtooth = find_partner(points, cyclic);
    if (!misses_throughout(cyclic) || sawtooth == nullptr || !sawtooth->dram_read_bytes) {
      continue;
    }
    sum += static_cast<double>(*cyclic.dram_read_bytes - *sawtooth->dram_read_bytes) /
           (kSweepRounds - 1);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(static_cast<long long>(sum / count));
}

void write_sweep_csv(std::ostream& out, std::span<const SweepPoint> points,
                     long long l2_effective_bytes) {
  out << "buffer_bytes,order,rounds,time_us,dram_read_bytes,predicted_dram_read_bytes\n";
  for (const SweepPoint& point : points) {
    out << point.buffer_bytes << (point.sawtooth ? ",sawtooth," : ",cyclic,") << kSweepRounds << ','
        << general_text(point.time_us) << ',';
    if (point.dram_read_bytes) {
      out << *point.dram_read_bytes;
    }
    out << ',' << modelled_sweep_bytes(point.buffer_bytes, point.sawtooth, l2_effective_bytes)
        << "\n";
  }
}

namespace {

using Matrix = std::vector<std::vector<double>>;  ///< [CTA][line]

/// What is left when the mean of each SM and of each line is taken away: the distance of an SM from
/// everything, and of a line from all SMs, say nothing about partitions.
Matrix centered(const AtomicLatencies& latencies) {
  const auto lines = static_cast<std::size_t>(latencies.lines);
  Matrix rows(latencies.sms.size());
  std::vector<double> line_mean(lines, 0.0);
  for (std::size_t cta = 0; cta < rows.size(); ++cta) {
    const auto begin = latencies.clocks.begin() + static_cast<std::ptrdiff_t>(cta * lines);
    rows[cta].assign(begin, begin + latencies.lines);
    const double mean =
        std::accumulate(rows[cta].begin(), rows[cta].end(), 0.0) / static_cast<double>(lines);
    for (std::size_t line = 0; line < lines; ++line) {
      rows[cta][line] -= mean;
      line_mean[line] += rows[cta][line] / static_cast<double>(rows.size());
    }
  }
  for (auto& row : rows) {
    std::transform(row.begin(), row.end(), line_mean.begin(), row.begin(), std::minus<>());
  }
  return rows;
}

void normalize(std::vector<double>& vector) {
  const double length =
      std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
  for (double& value : vector) {
    value = length > 0.0 ? value / length : 0.0;
  }
}

/// The first principal component over the SMs, by power iteration.
std::vector<double> principal_component(const Matrix& rows) {
  constexpr int kIterations = 100;
  std::vector<double> component(rows.size());
  // A start that is symmetric to nothing.
  for (std::size_t cta = 0; cta < rows.size(); ++cta) {
    component[cta] = 1.0 + std::sin(static_cast<double>(cta * cta));
  }
  for (int i = 0; i < kIterations; ++i) {
    std::vector<double> weights(rows.front().size(), 0.0);
    for (std::size_t cta = 0; cta < rows.size(); ++cta) {
      for (std::size_t line = 0; line < weights.size(); ++line) {
        weights[line] += component[cta] * rows[cta][line];
      }
    }
    for (std::size_t cta = 0; cta < rows.size(); ++cta) {
      component[cta] = std::inner_product(weights.begin(), weights.end(), rows[cta].begin(), 0.0);
    }
    normalize(component);
  }
  return component;
}

/// Two groups give every SM about the same magnitude; noise and distance do not.
bool is_two_groups(const std::vector<double>& component) {
  constexpr double kLeast = 0.5;  ///< Of the magnitude that all have when all are equal.
  const double even = 1.0 / std::sqrt(static_cast<double>(component.size()));
  return std::all_of(component.begin(), component.end(),
                     [&](double value) { return std::abs(value) > kLeast * even; });
}

}  // namespace

std::vector<int> partition_runs(const AtomicLatencies& latencies) {
  const std::set<unsigned> sms(latencies.sms.begin(), latencies.sms.end());
  if (sms.size() < latencies.sms.size() || sms.size() < 2) {
    return {};
  }
  const std::vector<double> component = principal_component(centered(latencies));
  if (!is_two_groups(component)) {
    return {};
  }
  std::vector<int> runs;
  for (std::size_t cta = 0; cta < component.size(); ++cta) {
    if (cta == 0 || (component[cta] > 0) != (component[cta - 1] > 0)) {
      runs.push_back(0);
    }
    ++runs.back();
  }
  return runs;
}

}  // namespace swr
