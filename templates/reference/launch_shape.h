// SPDX-License-Identifier: MIT
// Shapes of the reference kernel's launch, shared by the kernel and the host code that launches it.
#pragma once

#include <swr/annotations.h>

namespace swr::reference {

inline constexpr int kRows = 32;      ///< Query rows of a CTA.
inline constexpr int kKeys = 32;      ///< Keys staged at a time; one per lane of a warp.
inline constexpr int kThreads = 128;  ///< Four warps of eight rows each.

/// Rows of a staged tile lie one float further apart than they are long, so that threads reading
/// the same column of different rows meet different banks.
SWR_HD constexpr int row_floats(int head_dim) { return head_dim + 1; }

/// Dynamic shared memory: Q rows, K or V rows, and the scores.
SWR_HD constexpr int smem_bytes(int head_dim) {
  return ((kRows + kKeys) * row_floats(head_dim) + kRows * (kKeys + 1)) * 4;
}

/// CTAs: one per block of query rows of every head.
SWR_HD constexpr long long cta_count(int heads, int seq_q) {
  return static_cast<long long>(heads) * ((seq_q + kRows - 1) / kRows);
}

}  // namespace swr::reference
