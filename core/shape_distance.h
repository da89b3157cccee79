// SPDX-License-Identifier: MIT
// How far one shape, or one device, is from another. Self-contained arithmetic, so that the
// database's answers and exported packages, which carry this very file, call the same neighbour the
// nearest.
#pragma once

#include <cmath>

namespace swr {

/// A shape by the base-2 logarithms of its sizes: a doubling is one step in any dimension.
struct ShapePoint {
  static constexpr int kDimensions = 5;
  /// Of batch, heads_q, heads_kv, seq_q and seq_kv.
  double octaves[kDimensions] = {};
};

inline ShapePoint shape_point(int batch, int heads_q, int heads_kv, int seq_q, int seq_kv) {
  return {{std::log2(batch), std::log2(heads_q), std::log2(heads_kv), std::log2(seq_q),
           std::log2(seq_kv)}};
}

/// A device by what decides how it is matched.
struct DevicePoint {
  int sm_arch = 0;
  int sm_count = 0;
  long long l2_bytes = 0;
  double dram_gb_per_s = 0.0;
  bool mig = false;
};

/// True when results of one device are valid for the other.
inline bool is_same_device(const DevicePoint& a, const DevicePoint& b) {
  constexpr double kBandwidthTolerance = 0.02;
  const double larger = a.dram_gb_per_s < b.dram_gb_per_s ? b.dram_gb_per_s : a.dram_gb_per_s;
  return a.sm_arch == b.sm_arch && a.sm_count == b.sm_count && a.l2_bytes == b.l2_bytes &&
         a.mig == b.mig &&
         std::abs(a.dram_gb_per_s - b.dram_gb_per_s) <= kBandwidthTolerance * larger;
}

inline double squared_octaves(double a, double b) {
  const double octaves = std::log2(a / b);
  return octaves * octaves;
}

/// Root of the summed squared log2 ratios of SM count, L2 size and bandwidth.
inline double device_distance(const DevicePoint& a, const DevicePoint& b) {
  return std::sqrt(
      squared_octaves(a.sm_count, b.sm_count) +
      squared_octaves(static_cast<double>(a.l2_bytes), static_cast<double>(b.l2_bytes)) +
      squared_octaves(a.dram_gb_per_s, b.dram_gb_per_s));
}

/// Sum of the squared differences in octaves.
inline double squared_distance(const ShapePoint& a, const ShapePoint& b) {
  double sum = 0.0;
  for (int i = 0; i < ShapePoint::kDimensions; ++i) {
    const double octaves = a.octaves[i] - b.octaves[i];
    sum += octaves * octaves;
  }
  return sum;
}

}  // namespace swr
