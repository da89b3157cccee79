// SPDX-License-Identifier: MIT
// The one parameter block of the kernels for attention as servers call it: sequences of unequal
// lengths that only the device knows, K and V in pages, windows, sinks. Self-contained plain data.
#pragma once

#include <swr/attention_params.h>
#include <swr/serving_axes.h>

namespace swr {

/// Keys [position - left, position + right] of a query whose position among the keys is `position`;
/// -1 is no bound. With `chunk` other than 0 also only the keys of the query's own chunk, chunks
/// being that long and beginning at key 0.
struct KeyWindow {
  int left = -1;
  int right = -1;
  int chunk = 0;
};

/// The lengths of the sequences, all int32 in device memory; null where not used. The meaning of
/// each is FlashAttention-3's.
struct SequenceLengths {
  /// [batch + 1]: sequence i has rows [cu_seqlens_q[i], cu_seqlens_q[i + 1]) of q and o. Null:
  /// every sequence has max_seq_q rows and its own index of the batch dimension.
  const int* cu_seqlens_q = nullptr;
  const int* seqused_q = nullptr;  ///< [batch]: of its rows, only so many are queries.
  /// [batch + 1]: the same for k and v. Null: a batch dimension, or pages.
  const int* cu_seqlens_k = nullptr;
  const int* seqused_k = nullptr;  ///< [batch]: keys of the sequence, left padding included.
  const int* leftpad_k = nullptr;  ///< [batch]: rows before the first key.
  /// [batch]: the index of the batch dimension of k and v to use. Not with cu_seqlens_k or pages.
  const int* kv_batch_index = nullptr;
  /// Keys appended in the same call, after those that the others count: [batch + 1], or so many for
  /// every sequence.
  const int* cu_seqlens_k_new = nullptr;
  int seq_k_new = 0;
};

/// Which pages hold the rows of K and V of a sequence, int32 in device memory. Either `table`
/// [batch, pages_per_sequence], or `indptr`, `indices` and `last_page_len`, which also give the
/// lengths. Entries past a sequence's end are never read.
struct PageTable {
  const int* table = nullptr;
  long long table_stride = 0;  ///< Elements from one sequence's entries to the next's.
  int pages_per_sequence = 0;
  const int* indptr = nullptr;   ///< [batch + 1]: pages [indptr[i], indptr[i + 1]) of indices.
  const int* indices = nullptr;  ///< [indptr[batch]]
  const int* last_page_len = nullptr;  ///< [batch]: rows used of a sequence's last page.
  int page_size = 0;                   ///< Rows of a page.
};

/// Arguments of O = softmax(scale * Q K^T, masked) V over `batch` sequences.
///
/// Shapes, every stride in elements and a multiple of 8, the head dimension contiguous, tensors
/// aligned to 16 bytes: q [batch, heads_q, max_seq_q, head_dim] or [heads_q, total_q, head_dim]; k
/// [batch, heads_kv, max_seq_kv, head_dim], [heads_kv, total_kv, head_dim] or [pages, heads_kv,
/// page_size, head_dim], where strides.batch is from page to page; v the same with head_dim_v; o as
/// q with head_dim_v; lse as q without the last dimension, fp32, or null when not wanted.
///
/// Query head h reads K and V head h / (heads_q / heads_kv). Query i of a sequence stands at key
/// i + seq_kv - seq_q. A query that sees no key gives O = 0 and lse = -infinity, with a sink lse =
/// sink. Rows of o and lse that belong to no query are left as they are.
struct ServingAttentionParams {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
  TensorStrides q_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
  TensorStrides o_strides;
  TensorStrides lse_strides;
  int batch = 0;
  int heads_q = 0;
  int heads_kv = 0;
  /// What no sequence exceeds; longer ones are cut to it.
  int max_seq_q = 0;
  int max_seq_kv = 0;
  /// Rows of q that the launch must provide for, with cu_seqlens_q.
  long long total_q = 0;
  SequenceLengths lengths;
  PageTable pages;
  KeyWindow window;  ///< For ServingMask::window.
  /// Softmax scale times log2(e), positive. With a softcap: the cap times log2(e).
  float scale_log2 = 0.0F;
  /// Softmax scale over the cap, for kernels with a softcap.
  float softcap_scale = 0.0F;
  /// What the logarithm in lse is multiplied with: ln(2) for natural ones, 1 for base 2.
  float lse_unit = 0.693147180559945F;
  /// [heads_q]: a score of natural scale that every query of the head sees, without a value. Null
  /// when there is none.
  const void* sinks = nullptr;
  SinkType sink_type = SinkType::fp32;
  /// Heads per section of a sequence's Q tiles, as in AttentionParams.
  int section_heads = 1;
  ItemOrder item_order = ItemOrder::as_given;
  /// Deal::ranges: what beginning a Q tile costs, in K and V tiles.
  int item_overhead = 1;
  /// Deal::ranges and direct: no CTA gets fewer of these units than so many, at least 1, unless
  /// there are fewer.
  int least_units = 1;
  /// Deal::ranges and direct: what CTAs leave of Q tiles that they share, as many bytes as the
  /// launch plan says, and a word per CTA that is 0 when the kernel starts and that it leaves at 0.
  /// Persistence::dynamic: two such words. Launches that may run side by side need their own.
  float* partials = nullptr;
  unsigned* arrivals = nullptr;
  /// The caller promises that lengths and page tables were complete before the launch ahead of this
  /// one began, as they are in all layers of a step but the first. Work is then dealt, and pages
  /// are looked up, while that launch still ends.
  bool lengths_are_ready = false;
};

}  // namespace swr
