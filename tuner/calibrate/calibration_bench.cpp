// SPDX-License-Identifier: MIT
#include "tuner/calibrate/calibration_bench.h"

#include "tuner/measure/kernel_timer.h"

#include <algorithm>
#include <array>
#include <bit>

namespace swr {
namespace {

constexpr unsigned kRateThreads = 512;
constexpr unsigned kMemoryThreads = 1024;
constexpr int kChains = 8;               ///< Instructions per iteration of a rate loop.
constexpr long long kTileBytes = 16384;  ///< As templates/calibration/memory.cu.
constexpr long long kLineBytes = 128;

/// The kernels of one template share a cubin.
class Cubin {
 public:
  Cubin(const Generator& generator, int sm_arch, const char* path, const char* any_entry)
      : code_(generator.compile_template(path, any_entry, sm_arch).cubin) {}

  Kernel kernel(const char* entry) const { return Kernel(code_, entry); }

 private:
  std::vector<std::byte> code_;
};

/// Zeros, because the kernels must not find what they look for.
DeviceBuffer zeros(long long size_bytes, const Stream& stream) {
  DeviceBuffer buffer(static_cast<std::size_t>(size_bytes));
  buffer.fill(0, stream);
  return buffer;
}

unsigned power_of_two_lines(long long buffer_bytes) {
  return std::bit_floor(static_cast<unsigned>(buffer_bytes / kLineBytes));
}

int tiles_of(long long buffer_bytes) { return static_cast<int>(buffer_bytes / kTileBytes); }

}  // namespace

CalibrationBench::CalibrationBench(const Generator& generator, const DeviceInfo& device,
                                   int ordinal)
    : device_(device), context_(ordinal), results_(2 * sizeof(long long)) {
  const Cubin rates(generator, device.sm_arch, "calibration/rates.cu", "swr_mma_rate");
  fma_ = rates.kernel("swr_fma_rate");
  exp2_ = rates.kernel("swr_exp2_rate");
  mma_ = rates.kernel("swr_mma_rate");
  const Cubin memory(generator, device.sm_arch, "calibration/memory.cu", "swr_sweep");
  sweep_ = memory.kernel("swr_sweep");
  stream_once_ = memory.kernel("swr_stream");
  link_ = memory.kernel("swr_link");
  chase_ = memory.kernel("swr_chase");
  atomic_latency_ = memory.kernel("swr_atomic_latency");
  try {
    profiler_ = std::make_unique<RangeProfiler>(context_.handle(), ordinal);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_counters) {
      throw;
    }
    no_counters_because_ = error.what();
  }
}

/// The second launch counts: the first wakes the clocks.
RateMeasurement CalibrationBench::rate(const Launch& launch, double results_per_sm) const {
  const CUdeviceptr sink = results_.address() + sizeof(long long);
  const Event start;
  const Event stop;
  launch(results_.address(), sink);
  start.record(stream_);
  launch(results_.address(), sink);
  stop.record(stream_);
  const double time_us = stop.elapsed_us_since(start);
  std::array<long long, 1> clocks{};
  results_.download(std::as_writable_bytes(std::span(clocks)));
  const auto measured = static_cast<double>(clocks[0]);
  return {.results_per_clock_per_sm = results_per_sm / measured, .clock_mhz = measured / time_us};
}

RateMeasurement CalibrationBench::fma_rate() const {
  constexpr int kIterations = 1 << 18;
  const LaunchShape shape{.grid_x = static_cast<unsigned>(device_.sm_count),
                          .block_x = kRateThreads};
  return rate(
      [&](CUdeviceptr clocks, CUdeviceptr sink) {
        fma_.launch(shape, stream_, kIterations, 0.5F, clocks, sink);
      },
      static_cast<double>(kIterations) * kChains * kRateThreads);
}

RateMeasurement CalibrationBench::exp2_rate() const {
  constexpr int kIterations = 1 << 16;
  const LaunchShape shape{.grid_x = static_cast<unsigned>(device_.sm_count),
                          .block_x = kRateThreads};
  return rate([&](CUdeviceptr clocks,
                  CUdeviceptr sink) { exp2_.launch(shape, stream_, kIterations, clocks, sink); },
              static_cast<double>(kIterations) * kChains * kRateThreads);
}

RateMeasurement CalibrationBench::mma_rate() const {
  constexpr int kIterations = 1 << 18;  // Tens of milliseconds: the clock settles under the load.
  constexpr double kFlopPerMma = 2.0 * 16 * 8 * 16;
  const LaunchShape shape{.grid_x = static_cast<unsigned>(device_.sm_count),
                          .block_x = kRateThreads};
  return rate([&](CUdeviceptr clocks,
                  CUdeviceptr sink) { mma_.launch(shape, stream_, kIterations, clocks, sink); },
              static_cast<double>(kIterations) * kChains * (kRateThreads / 32) * kFlopPerMma);
}

DeviceBuffer CalibrationBench::linked_lines(unsigned lines) const {
  DeviceBuffer buffer(lines * static_cast<std::size_t>(kLineBytes));
  link_.launch({.grid_x = 256, .block_x = 256}, stream_, buffer.address(), lines);
  return buffer;
}

double CalibrationBench::chase_clocks(const DeviceBuffer& linked, int steps) const {
  chase_.launch({}, stream_, linked.address(), steps, results_.address(),
                results_.address() + sizeof(long long));
  stream_.synchronize();
  std::array<long long, 1> clocks{};
  results_.download(std::as_writable_bytes(std::span(clocks)));
  return static_cast<double>(clocks[0]) / steps;
}

double CalibrationBench::l2_latency_clocks(long long buffer_bytes) const {
  const unsigned lines = power_of_two_lines(buffer_bytes);
  const DeviceBuffer linked = linked_lines(lines);
  const int steps = static_cast<int>(lines);
  chase_clocks(linked, steps);  // Brings every line in.
  return chase_clocks(linked, steps);
}

double CalibrationBench::dram_latency_clocks(long long buffer_bytes) const {
  constexpr int kSteps = 1 << 14;
  const DeviceBuffer linked = linked_lines(power_of_two_lines(buffer_bytes));
  const DeviceBuffer evictor = zeros(4 * device_.l2_bytes, stream_);
  return chase_clocks(linked, kSteps);
}

/// The fastest of a few: what the hardware can do.
double CalibrationBench::best_time_us(const std::function<void()>& launch) const {
  constexpr int kWarmups = 2;
  KernelTimer timer(stream_, launch, {}, kWarmups);
  const std::vector<double> samples = timer.sample(KernelTimer::kBatch);
  return *std::min_element(samples.begin(), samples.end());
}

double CalibrationBench::l2_gb_per_s(long long buffer_bytes) const {
  constexpr int kRounds = 8;
  constexpr unsigned kCtasPerSm = 2;
  const DeviceBuffer buffer = zeros(buffer_bytes, stream_);
  const LaunchShape shape{.grid_x = kCtasPerSm * static_cast<unsigned>(device_.sm_count),
                          .block_x = kMemoryThreads};
  const int skew_tiles = std::max(1, tiles_of(buffer_bytes) / static_cast<int>(shape.grid_x));
  const double time_us = best_time_us([&] {
    sweep_.launch(shape, stream_, buffer.address(), tiles_of(buffer_bytes), kRounds, 0, skew_tiles,
                  results_.address());
  });
  return static_cast<double>(buffer_bytes) * kRounds * shape.grid_x / time_us / 1e3;
}

double CalibrationBench::dram_gb_per_s(long long buffer_bytes) const {
  constexpr unsigned kCtasPerSm = 2;
  const DeviceBuffer buffer = zeros(buffer_bytes, stream_);
  const LaunchShape shape{.grid_x = kCtasPerSm * static_cast<unsigned>(device_.sm_count),
                          .block_x = kMemoryThreads};
  const double time_us = best_time_us([&] {
    stream_once_.launch(shape, stream_, buffer.address(), tiles_of(buffer_bytes),
                        results_.address());
  });
  return static_cast<double>(buffer_bytes) / time_us / 1e3;
}

AtomicLatencies CalibrationBench::atomic_latencies() const {
  constexpr int kLines = 384;
  constexpr int kStrideLines = 4099;  // Prime, so that lines differ in every bit of their address.
  const auto ctas = static_cast<std::size_t>(device_.sm_count);
  const DeviceBuffer data = zeros(kLines * kStrideLines * kLineBytes, stream_);
  const DeviceBuffer clocks(ctas * kLines * sizeof(int));
  const DeviceBuffer sms(ctas * sizeof(unsigned));
  const LaunchShape shape{.grid_x = static_cast<unsigned>(ctas), .block_x = kMemoryThreads};
  AtomicLatencies result{.sms = std::vector<unsigned>(ctas),
                         .lines = kLines,
                         .clocks = std::vector<int>(ctas * kLines)};
  for (int launch = 0; launch < 2; ++launch) {  // The first brings the lines in.
    atomic_latency_.launch(shape, stream_, data.address(), kLines, kStrideLines, clocks.address(),
                           sms.address());
  }
  stream_.synchronize();
  clocks.download(std::as_writable_bytes(std::span(result.clocks)));
  sms.download(std::as_writable_bytes(std::span(result.sms)));
  return result;
}

SweepMeasurement CalibrationBench::sweep(long long buffer_bytes, int rounds, bool sawtooth) const {
  const DeviceBuffer buffer = zeros(buffer_bytes, stream_);
  const LaunchShape shape{.grid_x = static_cast<unsigned>(device_.sm_count),
                          .block_x = kRateThreads};
  const auto launch = [&] {
    sweep_.launch(shape, stream_, buffer.address(), tiles_of(buffer_bytes), rounds,
                  sawtooth ? 1 : 0, 0, results_.address());
  };
  SweepMeasurement result;
  result.time_us = best_time_us(launch);
  if (profiler_) {
    const DeviceBuffer evictor(static_cast<std::size_t>(4 * device_.l2_bytes));
    const auto empty_l2 = [&] {
      evictor.fill(0, stream_);
      stream_.synchronize();
    };
    const auto launch_and_wait = [&] {
      launch();
      stream_.synchronize();
    };
    const CountedLaunch counted{.prepare = empty_l2, .launch = launch_and_wait};
    result.dram_read_bytes =
        CountingSession(*profiler_).count(std::span(&counted, 1)).front().dram_read_bytes;
  }
  return result;
}

}  // namespace swr
