// SPDX-License-Identifier: MIT
// The enumerated values of the axes that attention over unequal sequences adds to those of
// <swr/axes.h>. Self-contained, so that kernels compiled by NVRTC include this very file. Append
// new values at the end, never rename or reorder.
#pragma once

namespace swr {

/// Which keys a query may see besides those past the end of its sequence.
enum class ServingMask {
  full,    ///< All.
  causal,  ///< Those up to its own position, aligned to the bottom right.
  window,  ///< What KeyWindow says when the kernel is launched: left, right, chunk.
};

/// What happens to a score before the softmax: cap * tanh(score / cap).
enum class Softcap {
  none,
  approximate,  ///< tanh.approx: a saturated score is off by about cap / 2048.
  accurate,     ///< By ex2 and rcp: off by about cap / 4,000,000.
};

/// Where the rows of K and V of a sequence lie.
enum class KvSource {
  rows,   ///< One after another.
  pages,  ///< In pages that a table names.
};

/// How rows of pages are brought to shared memory.
enum class PageCopy {
  row,    ///< cp.async; the place of every row is looked up. Any page size.
  run16,  ///< cp.async; one look-up for 16 rows. Pages of a multiple of 16 rows, no left padding.
};

/// How work is dealt to CTAs.
enum class Deal {
  whole,   ///< A Q tile, with all the K and V tiles it needs, is the work of one CTA.
  ranges,  ///< Every CTA gets an equal range of the K and V tiles of all Q tiles, one after
           ///< another.
  direct,  ///< The index of a CTA says sequence, head, Q tile and part of the keys: nothing is
           ///< listed or searched. For few sequences, of about equal length.
};

/// In which order Q tiles are dealt.
enum class ItemOrder {
  as_given,       ///< Sequences and their Q tiles in ascending order.
  longest_first,  ///< Sequences by the tiles of an item, descending; their Q tiles from the last.
  folded,  ///< Sequences ascending; Q tiles from both ends in turns, so that under a causal mask
           ///< any run of them takes about equally long.
};

/// Element type of the sinks.
enum class SinkType { fp32, fp16, bf16 };

}  // namespace swr
