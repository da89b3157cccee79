// SPDX-License-Identifier: MIT
// Calls by programs: everything that a caller can get wrong, and the problem that a call poses.
#include "core/reject.h"
#include "operations/attention_serving/call_checks.h"
#include "operations/attention_serving/parts.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

constexpr int kMostBatch = 1 << 20;
constexpr long long kMostRows = 1LL << 30;
constexpr int kMostLength = 1 << 24;

void check_sizes(const ServingAttentionCall& call) {
  const ServingAttentionParams& p = call.params;
  require_count(p.batch, 0, kMostBatch, "batch");
  require_count(p.heads_q, 1, 1 << 15, "heads_q");
  require_count(p.heads_kv, 1, 1 << 15, "heads_kv");
  require_count(p.max_seq_q, 0, kMostLength, "max_seq_q");
  require_count(p.max_seq_kv, call.append ? 1 : 0, kMostLength, "max_seq_kv");
  if (p.lengths.cu_seqlens_q != nullptr) {
    require_count(p.total_q, 0, kMostRows, "total_q");
  }
}

void check_lengths(const ServingAttentionParams& p) {
  const SequenceLengths& lengths = p.lengths;
  const bool is_paged = p.pages.page_size != 0;
  require_call(lengths.cu_seqlens_k == nullptr || !is_paged,
               "cu_seqlens_k is for K and V whose rows follow one another; with pages pass "
               "seqused_k");
  require_call(lengths.kv_batch_index == nullptr || (!is_paged && lengths.cu_seqlens_k == nullptr),
               "kv_batch_index is for K and V with a batch dimension, not for pages or "
               "cu_seqlens_k");
  require_aligned(lengths.cu_seqlens_q, "cu_seqlens_q", alignof(int));
  require_aligned(lengths.seqused_q, "seqused_q", alignof(int));
  require_aligned(lengths.cu_seqlens_k, "cu_seqlens_k", alignof(int));
  require_aligned(lengths.seqused_k, "seqused_k", alignof(int));
  require_aligned(lengths.leftpad_k, "leftpad_k", alignof(int));
  require_aligned(lengths.kv_batch_index, "kv_batch_index", alignof(int));
  require_aligned(lengths.cu_seqlens_k_new, "cu_seqlens_k_new", alignof(int));
}

void check_pages(const PageTable& pages) {
  const bool has_csr =
      pages.indptr != nullptr || pages.indices != nullptr || pages.last_page_len != nullptr;
  if (pages.page_size == 0) {
    require_call(pages.table == nullptr && !has_csr,
                 "a page table needs page_size, the rows of a page");
    return;
  }
  require_count(pages.page_size, 1, 1023, "page_size");
  require_call((pages.table != nullptr) != has_csr,
               "pages need either a table or indptr, indices and last_page_len");
  if (has_csr) {
    require_call(
        pages.indptr != nullptr && pages.indices != nullptr && pages.last_page_len != nullptr,
        "indptr, indices and last_page_len belong together");
    require_aligned(pages.indptr, "indptr", alignof(int));
    require_aligned(pages.indices, "indices", alignof(int));
    require_aligned(pages.last_page_len, "last_page_len", alignof(int));
    return;
  }
  require_aligned(pages.table, "the page table", alignof(int));
  require_count(pages.pages_per_sequence, 0, kMostLength, "pages_per_sequence");
  require_call(pages.table_stride >= 0, "the stride of the page table must not be negative");
}

void check_scores(const ServingAttentionCall& call) {
  const ServingAttentionParams& p = call.params;
  require_call(p.scale_log2 >= 0.0F && std::isfinite(p.scale_log2),
               "the softmax scale must be positive, or 0 for 1 / sqrt(head_dim)");
  require_call(call.softcap == Softcap::none || p.scale_log2 > 0.0F,
               "a softcap must be positive and finite");
  require_call(
      call.softcap == Softcap::none || (p.softcap_scale > 0.0F && std::isfinite(p.softcap_scale)),
      "with a softcap the softmax scale must be positive and finite");
  require_call(p.lse_unit > 0.0F && std::isfinite(p.lse_unit),
               "the unit of the log-sum-exp must be positive");
  require_aligned(p.sinks, "sinks", p.sink_type == SinkType::fp32 ? 4 : 2);
  if (call.mask == ServingMask::window) {
    // -1 is no bound.
    require_count(p.window.left, -1, kMostLength, "the window's left");
    require_count(p.window.right, -1, kMostLength, "the window's right");
    require_count(p.window.chunk, 0, kMostLength, "the chunk");
  }
}

void check_rotary(const ServingAttentionCall& call) {
  const RotaryEmbedding& rotary = call.append->rotary;
  require_call((rotary.cos != nullptr) == (rotary.sin != nullptr),
               "a rotary embedding needs both cos and sin");
  if (rotary.cos == nullptr) {
    return;
  }
  require_count(rotary.dim, 16, call.head_dim, "the rotary dimension");
  require_call(rotary.dim % 16 == 0, "the rotary dimension must be a multiple of 16");
  require_call(rotary.stride % 8 == 0, "rows of cos and sin must be multiples of 8 elements apart");
  require_aligned(rotary.cos, "cos", 16);
  require_aligned(rotary.sin, "sin", 16);
  require_aligned(rotary.first_position, "the rotary positions", alignof(int));
}

void check_append(const ServingAttentionCall& call) {
  const SequenceLengths& lengths = call.params.lengths;
  const bool has_new_rows = lengths.cu_seqlens_k_new != nullptr || lengths.seq_k_new != 0;
  if (!call.append) {
    require_call(!has_new_rows, "new keys are counted, but none are passed: k_new is NULL");
    return;
  }
  require_count(lengths.seq_k_new, 0, kMostLength, "seq_k_new");
  require_call(has_new_rows, "k_new needs the number of its rows: seq_k_new or cu_seqlens_k_new");
  require_call(lengths.cu_seqlens_k_new == nullptr || lengths.seq_k_new == 0,
               "pass seq_k_new or cu_seqlens_k_new, not both");
  require_count(call.append->total_k_new, 1, kMostRows, "total_k_new");
  require_call(lengths.cu_seqlens_k == nullptr,
               "rows that follow one another leave no room to append to: use pages or a batch "
               "dimension");
  require_call(lengths.seqused_k != nullptr,
               "appending needs seqused_k: how many rows each sequence has before");
  check_rotary(call);
}

bool has_queries(const ServingAttentionParams& p) {
  return p.batch > 0 && p.max_seq_q > 0 && (p.lengths.cu_seqlens_q == nullptr || p.total_q > 0);
}

/// Keys before its own that a query sees at most.
int reach_of(const KeyWindow& window) {
  constexpr int kMost = 65535;
  const int left = window.left < 0 ? kMost : std::min(window.left, kMost);
  return window.chunk > 0 ? std::min(left, window.chunk - 1) : left;
}

}  // namespace

ServingAttentionProblem problem_of(const ServingAttentionCall& call) {
  check_sizes(call);
  check_lengths(call.params);
  check_pages(call.params.pages);
  check_scores(call);
  check_append(call);
  const ServingAttentionParams& p = call.params;
  ServingAttentionProblem problem{
      .batch = at_least_one(p.batch),
      .heads_q = p.heads_q,
      .heads_kv = p.heads_kv,
      .seq_q = at_least_one(p.max_seq_q),
      .seq_kv = at_least_one(p.max_seq_kv),
      .head_dim = call.head_dim,
      .head_dim_v = call.head_dim_v,
      .dtype = call.dtype,
      .mask = call.mask,
      .window = call.mask == ServingMask::window ? reach_of(p.window) : 0,
      .softcap = call.softcap,
      .page_size = p.pages.page_size,
      .sinks = p.sinks != nullptr,
      .leftpad = p.lengths.leftpad_k != nullptr,
      .lengths = call.lengths};
  validate(problem);
  return problem;
}

void require_tensors(const ServingAttentionCall& call) {
  constexpr long long kMultiple = 8;
  constexpr long long kMany = 2;
  const ServingAttentionParams& p = call.params;
  if (has_queries(p)) {
    require_tensor(p.q, "q");
    require_tensor(p.o, "o");
  }
  if (p.max_seq_kv > 0) {
    require_tensor(p.k, "k");
    require_tensor(p.v, "v");
  }
  require_aligned(p.lse, "lse", alignof(float));
  const long long q_batch = p.lengths.cu_seqlens_q == nullptr ? p.batch : 1;
  const long long q_rows = p.lengths.cu_seqlens_q == nullptr ? p.max_seq_q : p.total_q;
  require_strides(p.q_strides, q_batch, p.heads_q, q_rows, kMultiple, "q");
  require_strides(p.o_strides, q_batch, p.heads_q, q_rows, kMultiple, "o");
  // How many pages there are nobody says.
  const bool has_containers = p.pages.page_size > 0 || p.lengths.cu_seqlens_k == nullptr;
  const long long containers = has_containers ? kMany : 1;
  const long long rows = p.pages.page_size > 0 ? p.pages.page_size : p.max_seq_kv;
  require_strides(p.k_strides, containers, p.heads_kv, rows, kMultiple, "k");
  require_strides(p.v_strides, containers, p.heads_kv, rows, kMultiple, "v");
  if (call.append) {
    require_tensor(call.append->k_new, "k_new");
    require_tensor(call.append->v_new, "v_new");
    const long long batch = p.lengths.cu_seqlens_k_new == nullptr ? p.batch : 1;
    const long long new_rows = batch == 1 ? call.append->total_k_new : p.lengths.seq_k_new;
    require_strides(call.append->k_new_strides, batch, p.heads_kv, new_rows, kMultiple, "k_new");
    require_strides(call.append->v_new_strides, batch, p.heads_kv, new_rows, kMultiple, "v_new");
  }
}

}  // namespace swr
