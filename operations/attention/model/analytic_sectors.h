// SPDX-License-Identifier: MIT
// The paper's closed formulas for L2 traffic: a second path, independent of the schedule, that the
// walk must agree with.
#pragma once

#include <swr/attention_problem.h>
#include <swr/problem.h>

namespace swr {

/// Sectors demanded by a launch with Q tiles of tile_m rows:
/// M = 2 (S D E / C + S^2 D E / (T C)) without a mask and 2 S D E / C (S / (2 T) + 1 / 2) with it,
/// per query head. Ragged tiles are not rounded up, and the causal form leaves out S D E / C
/// sectors per tensor beside the leading term, as published.
///
/// Source: Sawtooth Wavefront Reordering, section 3. Requires seq_q == seq_kv when causal.
double analytic_sectors(const AttentionProblem& problem, int tile_m);

}  // namespace swr
