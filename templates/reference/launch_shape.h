// SPDX-License-Identifier: MIT
// Shapes of the reference kernel's launch, shared by the kernel and the host code that launches it.
#pragma once

#include <swr/annotations.h>

namespace swr::reference {

inline constexpr int kRows = 128;          ///< Query rows of a CTA.
inline constexpr int kKeys = 128;          ///< Keys that it meets at a time.
inline constexpr int kDepth = 64;          ///< Columns that are staged at a time.
inline constexpr int kSliceKeys = 32;      ///< Keys whose V is in shared memory,
inline constexpr int kSliceColumns = 128;  ///< and its columns.
inline constexpr int kThreads = 256;       ///< 16 x 16, with 8 x 8 results each.

/// Floats from one row of a staged tile to the next. They keep the 16-byte alignment of vectors,
/// and vectors of eight successive rows of Q or K meet eight different groups of four banks. A warp
/// writes scores of two rows to 16 keys each: the rows are half of the 32 banks apart.
inline constexpr int kDepthStride = kDepth + 4;
inline constexpr int kScoreStride = kKeys + 16;

/// Probabilities take the place of the Q and K tiles that they were computed from.
inline constexpr int kScoreFloats = kRows * kScoreStride;
static_assert((kRows + kKeys) * kDepthStride <= kScoreFloats);

/// Dynamic shared memory: the probabilities, a slice of V, two values of each row, and what the CTA
/// works on. It must fit every GPU (99 KiB on sm_86, sm_89 and sm_120); two CTAs of it fit an SM of
/// sm_90.
inline constexpr int kBlockFloats = 8;
inline constexpr int kSmemBytes =
    (kScoreFloats + kSliceKeys * kSliceColumns + 2 * kRows + kBlockFloats) * 4;
static_assert(kSmemBytes <= 99 * 1024);

/// CTAs: one per block of query rows of every head.
SWR_HD constexpr long long cta_count(int heads, int seq_q) {
  return static_cast<long long>(heads) * ((seq_q + kRows - 1) / kRows);
}

}  // namespace swr::reference
