// SPDX-License-Identifier: MIT
#include "core/number_text.h"
#include "model/l2/lru_cache.h"
#include "tuner/calibrate/calibrate.h"
#include <swr/result.h>

#include <algorithm>
#include <ostream>

namespace swr {
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

}  // namespace swr
