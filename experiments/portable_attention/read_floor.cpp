// SPDX-License-Identifier: MIT
// How long a kernel takes that only reads so many bytes from memory, launched in a row over copies
// that together are several times the L2: the floor of decoding
// (experiments/portable_attention). Prints CSV: the best ring for each number of bytes, with
// launches in a row and overlapping ones. Usage: read_floor [MIB...]
#include "core/statistics/statistics.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "driver/kernel_launch.h"
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {
namespace {

constexpr int kRounds = 21;
constexpr double kGraphUs = 1000.0;
constexpr int kL2Multiple = 4;
constexpr int kMostSmemPerSmBytes = 227 * 1024;
constexpr int kBarrierBytes = 8;

/// How the bytes are asked for.
struct Ring {
  int ctas_per_sm;
  int chunk_bytes;
  int slots;
  bool lets_next_start_early;

  int smem_bytes() const { return slots * (chunk_bytes + kBarrierBytes); }
};

std::vector<Ring> rings() {
  std::vector<Ring> all;
  for (const int ctas_per_sm : {1, 2}) {
    for (const int chunk_kib : {2, 4, 8, 16}) {
      for (const int ring_kib : {32, 64, 96, 192}) {
        for (const bool early : {false, true}) {
          const Ring ring{ctas_per_sm, chunk_kib << 10, ring_kib / chunk_kib, early};
          if (ctas_per_sm * (ring.smem_bytes() + 1024) <= kMostSmemPerSmBytes) {
            all.push_back(ring);
          }
        }
      }
    }
  }
  return all;
}

/// Launches take turns over so many copies, that none finds its bytes in L2.
std::size_t copies_of(std::size_t bytes, const DeviceInfo& device) {
  const auto least = static_cast<std::size_t>(kL2Multiple * device.l2_bytes);
  return std::max<std::size_t>(2, (least + bytes - 1) / bytes);
}

class Reading {
 public:
  Reading(const Generator& generator, const DeviceInfo& device, std::size_t memory_bytes)
      : device_(device),
        compiled_(generator.compile_template("calibration/read_once.cu", "swr_read_once",
                                             device.sm_arch)),
        kernel_(compiled_.cubin, compiled_.entry),
        memory_(memory_bytes),
        results_(4096) {
    std::vector<std::uint64_t> words(memory_bytes / sizeof(std::uint64_t));
    std::mt19937_64 random(1);
    std::generate(words.begin(), words.end(), random);
    memory_.upload(std::as_bytes(std::span(words)));
  }

  /// Median microseconds of a launch. Requires: the memory holds the copies.
  double time_us(std::size_t bytes, const Ring& ring, LaunchOverlap overlap) const {
    const std::size_t copies = copies_of(bytes, device_);
    std::size_t launches = copies;
    while (static_cast<double>(launches * bytes) < kGraphUs * 4e6) {
      launches += copies;
    }
    kernel_.allow_dynamic_smem(ring.smem_bytes());
    const Graph graph(stream_, [&] {
      for (std::size_t launch = 0; launch < launches; ++launch) {
        enqueue(launch % copies * bytes, bytes, ring, overlap);
      }
    });
    std::vector<double> times_us;
    for (int round = 0; round <= kRounds; ++round) {
      const Event start;
      const Event stop;
      start.record(stream_);
      graph.launch(stream_);
      stop.record(stream_);
      const double time_us = stop.elapsed_us_since(start) / static_cast<double>(launches);
      if (round > 0) {
        times_us.push_back(time_us);
      }
    }
    return median(times_us);
  }

 private:
  void enqueue(std::size_t offset, std::size_t bytes, const Ring& ring,
               LaunchOverlap overlap) const {
    CUdeviceptr data = memory_.address() + offset;
    int chunks = static_cast<int>(bytes / static_cast<std::size_t>(ring.chunk_bytes));
    int chunk_bytes = ring.chunk_bytes;
    int slots = ring.slots;
    int early = ring.lets_next_start_early ? 1 : 0;
    CUdeviceptr result = results_.address();
    void* arguments[] = {&data, &chunks, &chunk_bytes, &slots, &early, &result};
    const CtaGrid grid{.ctas = ring.ctas_per_sm * device_.sm_count,
                       .threads = 32,
                       .dynamic_smem_bytes = ring.smem_bytes()};
    require_success(launch_grid(cuda_driver().launch_calls, kernel_.handle(), grid, overlap,
                                stream_.handle(), arguments),
                    "cuLaunchKernelEx");
  }

  DeviceInfo device_;
  PrimaryContext context_{0};
  Stream stream_;
  CompiledKernel compiled_;
  Kernel kernel_;
  DeviceBuffer memory_;
  DeviceBuffer results_;
};

void print_best(const Reading& reading, std::size_t bytes, LaunchOverlap overlap) {
  double best_us = 0.0;
  Ring best{};
  for (const Ring& ring : rings()) {
    const double time_us = reading.time_us(bytes, ring, overlap);
    if (best_us == 0.0 || time_us < best_us) {
      best_us = time_us;
      best = ring;
    }
  }
  std::printf("%zu,%s,%d,%d,%d,%d,%.3f,%.0f\n", bytes,
              overlap == LaunchOverlap::allowed ? "overlapping" : "in_a_row", best.ctas_per_sm,
              best.chunk_bytes, best.slots, best.lets_next_start_early ? 1 : 0, best_us,
              static_cast<double>(bytes) / best_us / 1e3);
  std::fflush(stdout);
}

/// In bytes. Throws: Error{invalid_argument}.
std::vector<std::size_t> sizes_asked_for(std::span<char*> arguments) {
  constexpr std::size_t kMostMib = 4096;
  std::vector<std::size_t> sizes;
  for (const std::string_view text : arguments) {
    std::size_t mib = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (error != std::errc() || end != text.data() + text.size() || mib < 1 || mib > kMostMib) {
      throw Error(ErrorCode::invalid_argument,
                  "sizes are 1 to " + std::to_string(kMostMib) + " MiB, not " + std::string(text));
    }
    sizes.push_back(mib << 20);
  }
  if (sizes.empty()) {
    sizes = {32UL << 20, 64UL << 20, 128UL << 20, 256UL << 20, 512UL << 20, 1024UL << 20};
  }
  return sizes;
}

void print_all(const std::vector<std::size_t>& sizes) {
  const DeviceInfo device = list_devices().front();
  std::size_t memory_bytes = 0;
  for (const std::size_t bytes : sizes) {
    memory_bytes = std::max(memory_bytes, bytes * copies_of(bytes, device));
  }
  const Reading reading(Generator({}), device, memory_bytes);
  std::printf("bytes,launches,ctas_per_sm,chunk_bytes,slots,next_starts_early,us,gb_per_s\n");
  for (const std::size_t bytes : sizes) {
    print_best(reading, bytes, LaunchOverlap::none);
    print_best(reading, bytes, LaunchOverlap::allowed);
  }
}

}  // namespace
}  // namespace swr

int main(int count, char** arguments) {
  try {
    swr::print_all(swr::sizes_asked_for(std::span(arguments + 1, arguments + count)));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "read_floor: " << error.what() << "\n";
    return 1;
  }
}
