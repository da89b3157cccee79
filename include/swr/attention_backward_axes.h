// SPDX-License-Identifier: MIT
// The enumerated values of the tuning axes that only attention backward has. Self-contained, so
// that kernels compiled by NVRTC include this very file.
//
// Enumerator spellings are stored: append new values at the end, never rename or reorder.
#pragma once

namespace swr {

/// How many kernels share the five products of backward.
enum class BackwardForm {
  /// One pass over the K and V tiles computes dK, dV and, summed in global memory, dQ: five
  /// products.
  fused,
  /// A pass over the Q tiles computes dQ, one over the K and V tiles dK and dV. S and dP are
  /// computed twice: seven products, no sums in global memory.
  two_pass,
};

/// In which order a K and V tile goes through the Q tiles of a head.
enum class QOrder {
  /// From the first to the last.
  cyclic,
  /// The direction flips with every pass over a head's Q tiles that the CTA makes.
  sawtooth,
  /// From the last to the first.
  right_to_left,
  /// K and V tile i begins at Q tile i and goes around, so that CTAs of one head that run in step
  /// never add to the same rows of dQ (DASH, arXiv 2601.21824, calls it shift).
  rotated,
};

/// How the K and V tiles of a head sum up dQ.
enum class DqSum {
  /// Not at all: the other pass of BackwardForm::two_pass computes dQ.
  none,
  /// Each adds atomically when it comes to it: the order of the additions is left to chance.
  atomic,
  /// Each waits for its turn: the same bits every time.
  ordered,
};

}  // namespace swr
