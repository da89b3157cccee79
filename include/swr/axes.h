// SPDX-License-Identifier: MIT
// The enumerated values of the tuning axes and of element types. Self-contained, so that kernels
// compiled by NVRTC include this very file.
//
// Enumerator spellings are also the spellings on the command line, in JSON and in the database:
// append new values at the end, never rename or reorder.
#pragma once

#include <swr/annotations.h>

namespace swr {

/// Element type of operands. Accumulation is always fp32. The FP8 types (e4m3 without infinities,
/// largest 448; e5m2, largest 57344) are for A and B of GEMM alone.
enum class DType { fp16, bf16, e4m3, e5m2 };

SWR_HD constexpr bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }
SWR_HD constexpr int element_bytes(DType type) { return is_fp8(type) ? 1 : 2; }

/// Direction in which a CTA streams the K and V tiles of one Q tile.
enum class Order {
  /// Every Q tile scans its K and V tiles from first to last.
  cyclic,
  /// The direction flips with the parity of the CTA's local iteration count, so a scan starts on
  /// the tiles the previous one ended on (Sawtooth Wavefront Reordering, Algorithm 4).
  sawtooth,
  /// Every Q tile scans from last to first, so that the tiles a causal mask cuts come first.
  right_to_left,
};

/// How Q tiles are handed to CTAs.
enum class Persistence {
  /// One CTA per Q tile (Algorithm 3 of the paper).
  grid,
  /// A fixed number of CTAs walk the linear tile index in strides of that number (Algorithm 2).
  persistent,
  /// Two consecutive linear tiles per CTA, no persistence (the paper's tile-based form).
  pairs,
  /// persistent, but odd rounds are dealt from the last CTA to the first: when a causal mask makes
  /// tiles shorter along the linear index, every CTA gets its share of long ones.
  snake,
  /// A fixed number of CTAs, each of which draws the next linear tile when it is free.
  dynamic,
};

/// How the linear tile index maps to (batch, head, Q tile).
enum class AttentionSwizzle {
  /// All Q tiles of one head, then the next head: neighbours in time share K and V.
  q_fastest,
  /// The same Q tile of every head, then the next Q tile: neighbours in time share nothing.
  head_fastest,
  /// head_fastest inside sections of `section_heads` heads; sections run one after another.
  head_sections,
};

/// How the portable family brings K and V to shared memory.
enum class KvCopy {
  /// Every thread copies 16 bytes at a time (sm_80 and later).
  cp_async,
  /// One thread has the copy engine bring whole tiles by tensor maps (sm_90 and later).
  tma,
};

/// How the Hopper family interleaves the two matrix products of a tile with its softmax.
enum class Mainloop {
  /// S = Q K^T, softmax, O += P V, one after the other; the warpgroups drift as they like.
  plain,
  /// The same, and one warpgroup at a time computes exponentials while the others multiply.
  mutex,
  /// Q K^T of the next tile and P V of this one are both under way while the softmax runs
  /// (FlashAttention-3, Algorithm 2).
  overlap,
  /// overlap, and the warpgroups take turns in issuing their products (FlashAttention-3,
  /// section 3.1).
  overlap_ordered,
};

/// Where P lies while it is multiplied with V.
enum class POperand { registers, shared };

}  // namespace swr
