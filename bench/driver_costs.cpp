// SPDX-License-Identifier: MIT
// Host time of what a measuring process asks of the driver for every variant, median and 95th
// percentile: to be run alone, and in a process per GPU at once, which shows what they wait for of
// each other (experiments/cluster). Usage: driver_costs [SECONDS_PER_CALL]
#include "core/statistics/statistics.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "driver/nvml.h"
#include "driver/range_profiler.h"
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/generator.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace swr {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

void time_calls(const std::string& name, double seconds, const std::function<void()>& call) {
  call();
  std::vector<double> times_us;
  const auto begun = Clock::now();
  while (microseconds_since(begun) < seconds * 1e6) {
    const auto started = Clock::now();
    call();
    times_us.push_back(microseconds_since(started));
  }
  std::printf("%-28s median %9.1f us  p95 %9.1f us  of %zu\n", name.c_str(), median(times_us),
              percentile(times_us, 95.0), times_us.size());
  std::fflush(stdout);
}

void time_all(double seconds) {
  auto begun = Clock::now();
  const DeviceInfo device = list_devices().front();
  std::printf("%-28s once   %9.1f us\n", "driver", microseconds_since(begun));
  begun = Clock::now();
  const PrimaryContext context(0);
  std::printf("%-28s once   %9.1f us\n", "context", microseconds_since(begun));
  begun = Clock::now();
  const GpuMonitor monitor(0);
  std::printf("%-28s once   %9.1f us\n", "NVML", microseconds_since(begun));

  const Stream stream;
  const Generator generator({});
  const CompiledKernel compiled = generator.compile_template("reference/shake_placement.cu",
                                                             "swr_shake_placement", device.sm_arch);
  const AttentionProblem problem{.heads_q = 16, .heads_kv = 16, .seq_q = 4096, .seq_kv = 4096};
  const CompiledKernel variant =
      generator.compile(problem, default_variant(problem, device), device.sm_arch);
  const DeviceBuffer memory(1 << 20);
  const auto clear = [&] { memory.fill(0, stream); };

  time_calls("reading NVML", seconds, [&] { monitor.read(); });
  time_calls("small module", seconds, [&] { Kernel(compiled.cubin, compiled.entry); });
  time_calls("a variant's module", seconds, [&] { Kernel(variant.cubin, variant.entry); });
  time_calls("64 MiB allocated and freed", seconds, [] { DeviceBuffer(64 << 20); });
  time_calls("graph of 16 nodes", seconds, [&] {
    Graph(stream, [&] {
      for (int i = 0; i < 16; ++i) {
        clear();
      }
    });
  });
  time_calls("launch and synchronise", seconds, [&] {
    clear();
    stream.synchronize();
  });

  begun = Clock::now();
  const RangeProfiler profiler(context.handle(), 0, Availability::assumed);
  std::printf("%-28s once   %9.1f us\n", "CUPTI, profiler", microseconds_since(begun));
  time_calls("asking what can be counted", seconds,
             [&] { RangeProfiler(context.handle(), 0, Availability::asked); });
  const CountedLaunch counted{.prepare = [] {},
                              .launch =
                                  [&] {
                                    clear();
                                    stream.synchronize();
                                  }};
  for (const std::size_t launches : {1, 16, 128}) {
    time_calls("counting " + std::to_string(launches) + " launches", seconds,
               [&] { CountingSession(profiler).count(std::vector(launches, counted)); });
  }
}

}  // namespace
}  // namespace swr

int main(int count, char** arguments) {
  try {
    swr::time_all(count > 1 ? std::stod(arguments[1]) : 1.0);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "driver_costs: " << error.what() << "\n";
    return 1;
  }
}
