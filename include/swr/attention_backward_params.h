// SPDX-License-Identifier: MIT
// The one parameter block every kernel of attention backward takes, by value. Self-contained plain
// data: the kernels, the tuner and programs that launch exported cubins share this definition.
#pragma once

#include <swr/attention_params.h>

namespace swr {

/// Arguments of one backward pass of O = softmax(scale * Q K^T + mask) V: from the gradient of O
/// to those of Q, K and V.
///
/// Shapes: q, dq [batch, heads_q, seq_q, head_dim]; o, d_o [batch, heads_q, seq_q, value_dim]; k,
/// dk [batch, heads_kv, seq_kv, head_dim]; v, dv [batch, heads_kv, seq_kv, value_dim]; lse and
/// d_lse [batch, heads_q, seq_q], contiguous fp32. Heads and mask are as AttentionParams has them.
/// `lse` is what forward wrote, `d_lse` its gradient or null.
///
/// A row that sees no key gives dQ = 0 and adds nothing to dK and dV.
struct AttentionBackwardParams {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* o = nullptr;
  const void* d_o = nullptr;
  const float* lse = nullptr;
  const float* d_lse = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  TensorStrides q_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
  TensorStrides o_strides;
  TensorStrides d_o_strides;
  TensorStrides dq_strides;
  TensorStrides dk_strides;
  TensorStrides dv_strides;
  int batch = 0;
  int heads_q = 0;
  int heads_kv = 0;
  int seq_q = 0;
  int seq_kv = 0;
  float scale = 0.0F;       ///< Of the softmax.
  float scale_log2 = 0.0F;  ///< The same times log2(e).

  /// Heads per section of the tile mapping of the pass over K and V tiles (heads of K and V), and
  /// of the one over Q tiles (query heads).
  int section_heads = 1;
  int q_section_heads = 1;
  /// CTAs that share the walk of one K and V tile; each leaves partial sums of dK and dV when
  /// there are several.
  int parts = 1;
  /// Other than 0: the K and V tiles of every band of a head are dealt from last to first.
  int last_kv_first = 0;
  /// QOrder::rotated: K and V tiles of a head, at least 1.
  int rotation = 1;

  // Workspace, in pieces as operations/attention_backward/launch_plan.h lays it out. It may hold
  // anything when the call starts.

  /// What the passes need of every query row: log-sum-exp times log2(e), and rowsum(dO * O) less
  /// the gradient of the log-sum-exp. [batch * heads_q, row_pitch / 2, 2 kinds, 2 rows].
  float* row_stats = nullptr;
  int row_pitch = 0;  ///< Rows of one head; even.
  /// DqSum other than none: fp32 sums of dQ, tile by tile in the order in which threads hold them.
  float* dq_sums = nullptr;
  /// DqSum::ordered: whose turn it is, per Q tile and warp; of the Hopper family, the first of a
  /// tile's words counts.
  unsigned* turns = nullptr;
  /// DqSum::ordered and Persistence::dynamic: the next item to draw.
  unsigned* item_counter = nullptr;
  /// Several parts: [parts, batch * heads_kv, seq_kv, head_dim] of dK, then the same of dV with
  /// value_dim.
  float* dkv_parts = nullptr;

  /// Bands that the K and V tiles of a head are dealt in, the first bands of all heads first; at
  /// least 1.
  int bands = 1;
};

}  // namespace swr
