/* SPDX-License-Identifier: MIT
 * Attention backward for C: from the gradient of O to those of Q, K and V.
 *
 * The structure begins with its size, which the caller sets to sizeof: fields are added at the end,
 * and what is 0 or NULL is off. */
#pragma once

#include <swr/swr_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The backward pass of swr_attention over q, dq [batch, heads_q, seq_q, head_dim]; o, d_o
 * [batch, heads_q, seq_q, head_dim_v]; k, dk [batch, heads_kv, seq_kv, head_dim]; v, dv
 * [batch, heads_kv, seq_kv, head_dim_v] in device memory. Strides count elements; the last
 * dimension is contiguous. Rows that see no key get dq = 0. */
typedef struct swr_attention_backward {
  uint64_t size; /* sizeof(swr_attention_backward) */
  const void* q;
  const void* k;
  const void* v;
  const void* o;
  const void* d_o;
  const float* lse;   /* [batch, heads_q, seq_q], contiguous, as forward wrote it. */
  const float* d_lse; /* The gradient of lse, as lse; NULL for none. */
  void* dq;
  void* dk;
  void* dv;
  swr_strides q_strides;
  swr_strides k_strides;
  swr_strides v_strides;
  swr_strides o_strides;
  swr_strides d_o_strides;
  swr_strides dq_strides;
  swr_strides dk_strides;
  swr_strides dv_strides;
  int32_t batch;
  int32_t heads_q;
  int32_t heads_kv;
  int32_t seq_q;
  int32_t seq_kv;
  int32_t head_dim;      /* Multiple of 16, of 32 where it or head_dim_v is more than 128. */
  int32_t head_dim_v;    /* The same; 0 stands for head_dim. */
  int32_t dtype;         /* swr_dtype */
  int32_t causal;        /* 0 or 1; aligned to the bottom right. */
  int32_t deterministic; /* 1: the same inputs give the same bits. */
  float scale;           /* Positive; 0 stands for 1 / sqrt(head_dim). */
  int32_t reserved;      /* 0 */
  /* Device memory as swr_runtime_prepare_backward says, aligned to 256 bytes, which may hold
   * anything. NULL: memory of the runtime, which a stream's first call and every captured one
   * allocate. */
  void* workspace;
  int64_t workspace_bytes;
} swr_attention_backward;

/* Enqueues one call: two or three launches. With a workspace and after the first call for a problem
 * nothing is allocated and nobody waits, also while a graph is captured. */
swr_status swr_runtime_attention_backward(swr_runtime* runtime,
                                          const swr_attention_backward* backward, void* stream);
/* All but the launches, in the same context. Tensors that are NULL count as aligned to 16 bytes.
 * `workspace_bytes`, which may be NULL, is what the call takes until swr_runtime_refresh; no term
 * of it grows with seq_q times seq_kv. */
swr_status swr_runtime_prepare_backward(swr_runtime* runtime,
                                        const swr_attention_backward* backward,
                                        int64_t* workspace_bytes);

#ifdef __cplusplus
}
#endif
