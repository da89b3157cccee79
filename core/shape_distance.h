// SPDX-License-Identifier: MIT
// How far one shape is from another. Self-contained arithmetic, so that the database's answers and
// exported packages, which carry this very file, call the same neighbour the nearest.
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
