// SPDX-License-Identifier: MIT
// The closed form of a published study, beside which the model's walk is set.
#pragma once

#include <swr/attention_problem.h>
#include <swr/problem.h>
#include <swr/result.h>

namespace swr {

/// Sectors demanded by a launch with Q tiles of tile_m rows:
/// M = 2 (S D E / C + S^2 D E / (T C)) without a mask and 2 S D E / C (S / (2 T) + 1 / 2) with it,
/// per query head. Ragged tiles are not rounded up, and the causal form leaves out S D E / C
/// sectors per tensor beside the leading term, as published.
///
/// Source: Sawtooth Wavefront Reordering, section 3. Requires seq_q == seq_kv when causal.
inline double analytic_sectors(const AttentionProblem& problem, int tile_m) {
  const double row_sectors =
      static_cast<double>(problem.head_dim) * element_bytes(problem.dtype) / kSectorBytes;
  const double heads = static_cast<double>(problem.batch) * problem.heads_q;
  const double q_sectors = heads * problem.seq_q * row_sectors;
  const double q_tiles = static_cast<double>(problem.seq_q) / tile_m;
  if (problem.causal) {
    return 2 * q_sectors * (q_tiles / 2 + 0.5);
  }
  const double kv_sectors = heads * problem.seq_kv * row_sectors;
  return 2 * (q_sectors + q_tiles * kv_sectors);
}

}  // namespace swr
