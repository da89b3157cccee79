// SPDX-License-Identifier: MIT
#include "operations/attention/model/analytic_sectors.h"

#include <swr/attention_problem.h>
#include <swr/result.h>

namespace swr {

double analytic_sectors(const AttentionProblem& problem, int tile_m) {
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
