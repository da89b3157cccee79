// SPDX-License-Identifier: MIT
// A buffer that every SM reads again and again, forwards or to and fro: what misses tell how much
// of it L2 keeps.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>

namespace swr {

inline constexpr int kSweepRounds = 8;

struct SweepPoint {
  long long buffer_bytes = 0;
  bool sawtooth = false;
  double time_us = 0.0;
  /// Empty when counters were refused.
  std::optional<long long> dram_read_bytes;
};

/// DRAM bytes that the model reads for a sweep, starting from an empty L2.
long long modelled_sweep_bytes(long long buffer_bytes, bool sawtooth, long long l2_effective_bytes);

/// The L2 capacity that explains the sawtooth sweeps: under least-recently-used replacement every
/// round after the first saves exactly what L2 holds. The mean over buffers that no longer fit at
/// all, which are those whose cyclic sweep reads them in full every round. Empty when no pair of
/// points says anything.
std::optional<long long> fitted_l2_bytes(std::span<const SweepPoint> points);

/// One row per point: measured time and DRAM bytes beside the modelled ones.
void write_sweep_csv(std::ostream& out, std::span<const SweepPoint> points,
                     long long l2_effective_bytes);

}  // namespace swr
