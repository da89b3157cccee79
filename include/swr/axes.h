// SPDX-License-Identifier: MIT
// The enumerated values of the tuning axes and of element types. Self-contained, so that kernels
// compiled by NVRTC include this very file.
//
// Enumerator spellings are also the spellings on the command line, in JSON and in the database:
// append new values at the end, never rename or reorder.
#pragma once

namespace swr {

/// Element type of Q, K, V and O. Accumulation is always fp32.
enum class DType { fp16, bf16 };

/// Direction in which a CTA streams the K and V tiles of one Q tile.
enum class Order {
  /// Every Q tile scans its K and V tiles from first to last.
  cyclic,
  /// The direction flips with the parity of the CTA's local iteration count, so a scan starts on
  /// the tiles the previous one ended on (Sawtooth Wavefront Reordering, Algorithm 4).
  sawtooth,
};

/// How Q tiles are handed to CTAs.
enum class Persistence {
  /// One CTA per Q tile (Algorithm 3 of the paper).
  grid,
  /// A fixed number of CTAs walk the linear tile index in strides of that number (Algorithm 2).
  persistent,
  /// Two consecutive linear tiles per CTA, no persistence (the paper's tile-based form).
  pairs,
};

/// How the linear tile index maps to (batch, head, Q tile).
enum class Swizzle {
  /// All Q tiles of one head, then the next head: neighbours in time share K and V.
  q_fastest,
  /// The same Q tile of every head, then the next Q tile: neighbours in time share nothing.
  head_fastest,
  /// head_fastest inside sections of `section_heads` heads; sections run one after another.
  head_sections,
};

}  // namespace swr
