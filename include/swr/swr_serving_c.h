/* SPDX-License-Identifier: MIT
 * Attention as servers call it, for C: sequences of unequal lengths that only the device knows, K
 * and V in pages, windows, softcap, sinks, and rows that are appended in the same call.
 *
 * Structures begin with their size, which the caller sets to sizeof: fields are added at the end,
 * and what is 0 or NULL is off. */
#pragma once

#include <swr/swr_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which keys a query may see. Query i of a sequence stands at key i + keys - queries. */
typedef enum swr_mask {
  SWR_MASK_NONE = 0,
  SWR_MASK_CAUSAL = 1,
  SWR_MASK_WINDOW = 2 /* Keys [position - window_left, position + window_right]. */
} swr_mask;

/* What the lengths of a batch are expected to be like; any lengths are right with each. */
typedef enum swr_lengths {
  SWR_LENGTHS_EQUAL = 0,
  SWR_LENGTHS_UNIFORM = 1,
  SWR_LENGTHS_LOG_NORMAL = 2,
  SWR_LENGTHS_SHORT_AND_LONG = 3,
  SWR_LENGTHS_ONE_GIANT = 4,
  SWR_LENGTHS_SOME_EMPTY = 5,
  SWR_LENGTHS_ONE_CHUNK = 6
} swr_lengths;

/* Rows of K and V that are written behind those that a sequence has, and rotary embedding of them
 * and of the queries. New rows and queries stand at the positions that follow the sequence's
 * rows. */
typedef struct swr_kv_append {
  uint64_t size;     /* sizeof(swr_kv_append) */
  const void* k_new; /* [batch, heads_kv, seq_k_new, head_dim], or [heads_kv, total, head_dim]. */
  const void* v_new;
  swr_strides k_new_strides;
  swr_strides v_new_strides;
  int32_t seq_k_new;               /* Rows for every sequence, or 0 with cu_seqlens_k_new. */
  int32_t rotary_dim;              /* Columns that are turned, a multiple of 16. */
  const int32_t* cu_seqlens_k_new; /* [batch + 1], on the device. */
  int64_t total_k_new;             /* At most so many rows over the batch. */
  const void* rotary_cos;          /* [positions, rotary_dim / 2] of the tensors' type, or NULL. */
  const void* rotary_sin;
  int64_t rotary_stride;           /* Elements from row to row of cos and sin. */
  int32_t rotary_interleaved;      /* Columns 2i and 2i + 1 make a pair, not i and i + dim / 2. */
  int32_t queries_stay;            /* All queries stand at the first position. */
  const int32_t* rotary_positions; /* [batch] of the first new row, or NULL. */
} swr_kv_append;

/* O = softmax(scale * Q K^T, masked) V over `batch` sequences. Lengths and tables are int32 in
 * device memory and are read when the launch runs, so that a captured graph replays with others.
 * Tensors are aligned to 16 bytes, strides count elements and are multiples of 8.
 *
 * Queries: cu_seqlens_q is given and q is [heads_q, total_q, head_dim], or it is NULL and q is
 * [batch, heads_q, max_seq_q, head_dim].
 * Keys: page_size is 0 and k is [heads_kv, rows, head_dim] with cu_seqlens_k, or [batch, heads_kv,
 * rows, head_dim]; or page_size is given and k is [pages, heads_kv, page_size, head_dim], with
 * page_table, or with page_indptr, page_indices and last_page_len.
 * max_seq_kv 0 says that there is no key, whatever lengths say: k and v may then be NULL, as q and
 * o without queries. */
typedef struct swr_serving_attention {
  uint64_t size; /* sizeof(swr_serving_attention) */
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse; /* As q without head_dim; NULL when not wanted. */
  swr_strides q_strides;
  swr_strides k_strides;
  swr_strides v_strides;
  swr_strides o_strides;
  swr_strides lse_strides;
  int32_t batch;
  int32_t heads_q;
  int32_t heads_kv;   /* Divides heads_q. */
  int32_t head_dim;   /* Of q and k: a multiple of 16, at most 256. */
  int32_t head_dim_v; /* Of v and o; 0 stands for head_dim. */
  int32_t dtype;      /* SWR_FP16 or SWR_BF16 */
  int32_t max_seq_q;  /* What no sequence exceeds: the launch follows from these bounds. */
  int32_t max_seq_kv;
  int64_t total_q; /* Rows of q, with cu_seqlens_q. */

  const int32_t* cu_seqlens_q;   /* [batch + 1] */
  const int32_t* seqused_q;      /* [batch]: queries of each sequence, of its rows. */
  const int32_t* cu_seqlens_k;   /* [batch + 1] */
  const int32_t* seqused_k;      /* [batch]: rows of each sequence before this call appends any. */
  const int32_t* leftpad_k;      /* [batch]: rows before the first key. */
  const int32_t* kv_batch_index; /* [batch]: of k and v. */

  const int32_t* page_table;    /* [batch, pages_per_sequence] */
  int64_t page_table_stride;    /* Elements from sequence to sequence. */
  const int32_t* page_indptr;   /* [batch + 1] */
  const int32_t* page_indices;  /* Pages [page_indptr[i], page_indptr[i + 1]) are sequence i's. */
  const int32_t* last_page_len; /* [batch]: rows used of the last page, 1 to page_size. */
  int32_t pages_per_sequence;
  int32_t page_size;

  int32_t mask;             /* swr_mask */
  int32_t window_left;      /* For SWR_MASK_WINDOW: keys, or -1 for no bound. */
  int32_t window_right;     /* 0 is causal. */
  int32_t chunk;            /* Keys of other chunks of this length are hidden too; 0 for none. */
  float scale;              /* Positive; 0 stands for 1 / sqrt(head_dim). */
  float softcap;            /* Scores become softcap * tanh(score / softcap); 0 for none. */
  int32_t accurate_softcap; /* 1: tanh to 2^-22 instead of 2^-11. */
  int32_t sink_dtype;       /* swr_dtype of sinks. */
  const void* sinks;        /* [heads_q]: a score without a value, or NULL. */
  int32_t lse_in_base_2;    /* 1: the logarithm to base 2, as FlashInfer has it. */
  int32_t lengths;          /* swr_lengths */
  /* 1: lengths and tables were complete before the launch ahead of this one began. */
  int32_t lengths_are_ready;

  int32_t reserved;            /* 0 */
  const swr_kv_append* append; /* NULL when nothing is appended. */
  /* Device memory as swr_runtime_prepare_serving says, aligned to 256 bytes, whose first
   * SWR_WORKSPACE_ZEROED bytes are 0 before its first use. NULL: memory of the runtime, which a
   * stream's first such launch and every captured one allocate. */
  void* workspace;
  int64_t workspace_bytes;
} swr_serving_attention;

enum { SWR_WORKSPACE_ZEROED = 65536 };

/* Enqueues one call. With a workspace and after the first call for these bounds nothing is
 * allocated and nobody waits, also while a graph is captured. */
swr_status swr_runtime_serving_attention(swr_runtime* runtime,
                                         const swr_serving_attention* attention, void* stream);
/* All but the launches, in the same context; q, k, v and o may be NULL. `workspace_bytes`, which
 * may be NULL, is what any lengths within the bounds take, until swr_runtime_refresh. */
swr_status swr_runtime_prepare_serving(swr_runtime* runtime, const swr_serving_attention* attention,
                                       int64_t* workspace_bytes);

/* Attention over different keys of the same queries becomes attention over all of them. */
typedef struct swr_states {
  uint64_t size;            /* sizeof(swr_states) */
  const void* parts;        /* [parts, heads, rows, head_dim]: O of each part. */
  const float* part_lse;    /* [parts, heads, rows]; -infinity for a part without keys. */
  void* o;                  /* [heads, rows, head_dim] */
  float* lse;               /* [heads, rows]; NULL when not wanted. */
  swr_strides part_strides; /* `batch` is from part to part. */
  swr_strides part_lse_strides;
  swr_strides o_strides;
  swr_strides lse_strides;
  int32_t part_count;
  int32_t heads;
  int64_t rows;
  int32_t head_dim;      /* A multiple of 8. */
  int32_t part_dtype;    /* swr_dtype: SWR_FP32 or that of the output. */
  int32_t output_dtype;  /* swr_dtype */
  int32_t lse_in_base_2; /* Of both logarithms. */
} swr_states;

swr_status swr_merge_states(swr_runtime* runtime, const swr_states* states, void* stream);

#ifdef __cplusplus
}
#endif
