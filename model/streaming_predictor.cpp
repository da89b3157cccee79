// SPDX-License-Identifier: MIT
#include "model/streaming_predictor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace swr {
namespace {

/// Microseconds for an amount at a rate per second of 1e9.
double time_us(double amount, double giga_per_s) { return amount / giga_per_s / 1e3; }

long long sectors(double bytes) { return std::llround(std::ceil(bytes / kSectorBytes)); }

/// By Little's law: bytes that arrive while one load waits are at most those that are asked for.
double flow_us(const StreamedLaunch& launch, const GpuProfile& profile, int ctas_per_sm) {
  const double places = static_cast<double>(profile.device.sm_count) * ctas_per_sm;
  const double resident = std::min(places, static_cast<double>(launch.geometry.grid_x));
  const double latency_us = profile.dram_latency_clocks / profile.clock_mhz;
  const double read = static_cast<double>(launch.bytes.read) + launch.reread_bytes;
  return read / (resident * launch.tile_bytes_in_flight) * latency_us;
}

/// How much longer the fullest SM works than all do on average.
double imbalance(const StreamedLaunch& launch, const GpuProfile& profile, int ctas_per_sm) {
  const double places = static_cast<double>(profile.device.sm_count) * ctas_per_sm;
  const double waves = launch.geometry.grid_x / places;
  return waves > 1.0 ? std::ceil(waves) / waves : 1.0;
}

class StreamingPredictor final : public Predictor {
 public:
  StreamingPredictor(const GpuProfile& profile, DescribeStream describe)
      : profile_(profile), describe_(std::move(describe)) {}

  Prediction predict(const Problem& problem, const Variant& variant,
                     const KernelResources& /*resources*/, int ctas_per_sm) override {
    const StreamedLaunch launch = describe_(problem, variant, profile_, ctas_per_sm);
    const auto read = static_cast<double>(launch.bytes.read);
    const auto written = static_cast<double>(launch.bytes.write);
    const double refetched = launch.reread_bytes * launch.reread_miss_share;
    const double exp2_giga_per_s =
        profile_.exp2_per_clock_per_sm * profile_.device.sm_count * profile_.clock_mhz / 1e3;
    Prediction result;
    result.softmax_us = time_us(launch.exponentials, exp2_giga_per_s);
    result.l2_us = time_us(read + launch.reread_bytes + written, profile_.l2_gb_per_s);
    result.dram_us = time_us(read + refetched + written,
                             profile_.device.dram_gb_per_s * profile_.dram_efficiency);
    const double bound = std::max({result.softmax_us, result.l2_us, result.dram_us});
    const double streamed = std::max(bound, flow_us(launch, profile_, ctas_per_sm)) *
                            imbalance(launch, profile_, ctas_per_sm);
    result.latency_us = streamed - bound + profile_.kernel.launch_us +
                        profile_.dram_latency_clocks / profile_.clock_mhz;
    result.time_us = bound + result.latency_us;
    result.read_sectors = sectors(read + launch.reread_bytes);
    result.write_sectors = sectors(written);
    result.compulsory_misses = sectors(read) + sectors(written);
    result.excess_misses = sectors(refetched);
    return result;
  }

  /// What addresses and sums take; enough to rank.
  KernelResources estimated_resources(const Problem& /*problem*/,
                                      const Variant& /*variant*/) const override {
    constexpr int kUsualRegisters = 40;
    return {.registers_per_thread = kUsualRegisters};
  }

  std::optional<double> floor_us(const Problem& /*problem*/,
                                 const Variant& /*variant*/) const override {
    return std::nullopt;
  }

 private:
  GpuProfile profile_;
  DescribeStream describe_;
};

}  // namespace

double reread_miss_share(double footprint_bytes, bool backward, double l2_bytes) {
  const double held = l2_bytes / footprint_bytes;
  return 1.0 - std::clamp(backward ? held / 2.0 : held - 1.0, 0.0, 1.0);
}

std::unique_ptr<Predictor> make_streaming_predictor(const GpuProfile& profile,
                                                    DescribeStream describe) {
  return std::make_unique<StreamingPredictor>(profile, std::move(describe));
}

}  // namespace swr
