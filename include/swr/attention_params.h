// SPDX-License-Identifier: MIT
// The one parameter block every attention kernel takes, by value. Self-contained plain data: the
// kernels, the tuner and programs that launch exported cubins share this definition.
#pragma once

#include <swr/tensor_map.h>

namespace swr {

/// Strides in elements. The innermost dimension (head_dim) is contiguous.
struct TensorStrides {
  long long batch = 0;
  long long head = 0;
  long long seq = 0;
};

/// Arguments of one forward pass O = softmax(scale * Q K^T + mask) V.
///
/// Shapes: q, o [batch, heads_q, seq_q, head_dim]; k, v [batch, heads_kv, seq_kv, head_dim];
/// lse [batch, heads_q, seq_q], contiguous fp32, natural logarithm, or null when not wanted.
/// Query head h reads K and V head h / (heads_q / heads_kv). The causal mask is aligned to the
/// bottom right: row i sees key j when j <= i + seq_kv - seq_q. A row that sees no key gives
/// O = 0 and lse = -infinity.
struct AttentionParams {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;
  TensorStrides q_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
  TensorStrides o_strides;
  int batch = 0;
  int heads_q = 0;
  int heads_kv = 0;
  int seq_q = 0;
  int seq_kv = 0;
  /// Softmax scale times log2(e). Positive: the running maximum is taken before scaling.
  float scale_log2 = 0.0F;
  /// Heads per section of the tile mapping; 1 is q_fastest, batch * heads_q is head_fastest.
  int section_heads = 1;
  /// Other than 0: the Q tiles of every head are dealt from last to first. For the portable
  /// family's causal kernels; the Hopper family's always do.
  int longest_first = 0;
  /// For Persistence::dynamic: two words that are 0 when the kernel starts and that it leaves at 0.
  /// Launches that may overlap need words of their own. swr::Runtime and exported packages bring
  /// them when this is null.
  unsigned* tile_counter = nullptr;
  /// CTAs that share the K and V tiles of a Q tile; more than 1 only for kernels built with
  /// split_kv.
  int kv_splits = 1;
  /// For split_kv: what the splits leave, as many bytes as the launch geometry says, and a word per
  /// Q tile that is 0 when the kernel starts and that it leaves at 0. Launches that may overlap
  /// need their own. swr::Runtime and exported packages bring them.
  float* partials = nullptr;
  unsigned* arrivals = nullptr;
};

/// The one argument of portable kernels that bring K and V by tensor maps.
struct MappedAttentionParams {
  AttentionParams params;
  TensorMap k;
  TensorMap v;
};

}  // namespace swr
