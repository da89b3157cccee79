/* SPDX-License-Identifier: MIT
 * swr for C and for languages that call C: asking a database, and running attention and GEMM with
 * the best stored kernels. The library is libswr.so.
 *
 * Functions return a status; swr_last_error() says more. Handles may be used by any number of
 * threads at once and are released once. Structures and values keep their meaning within one
 * SWR_API_VERSION. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SWR_API_VERSION = 1 };

/* The version of the library that was loaded; compare it with SWR_API_VERSION. */
int32_t swr_api_version(void);

typedef enum swr_status {
  SWR_OK = 0,
  SWR_INVALID_ARGUMENT = 1,
  SWR_NOT_FOUND = 2,
  SWR_UNREADABLE = 3,
  SWR_NOT_WRITABLE = 4,
  SWR_NO_NVRTC = 5,
  SWR_NO_DRIVER = 6,
  SWR_NO_COUNTERS = 7,
  SWR_COMPILE_FAILED = 8,
  SWR_DRIVER_FAILED = 9,
  SWR_DATABASE_LOCKED = 10,
  SWR_SCHEMA_TOO_NEW = 11,
  SWR_NOTHING_STORED = 12,
  SWR_NOT_COMPILED = 13,
  SWR_INTERNAL = 99 /* Out of memory, or a defect of swr. */
} swr_status;

/* What the last call of this thread that failed has to say: what failed, with which inputs, and
 * what to do. Valid until the next one fails. */
const char* swr_last_error(void);

typedef enum swr_dtype {
  SWR_FP16 = 0,
  SWR_BF16 = 1,
  SWR_FP32 = 2, /* C of GEMM alone. */
  /* Of swr_runtime_fused_gemm alone: A and B, and C of e4m3. */
  SWR_E4M3 = 3,
  SWR_E5M2 = 4
} swr_dtype;

/* How A and B lie in memory, all matrices being row-major. */
typedef enum swr_layout {
  SWR_NT = 0, /* A [m, k], B [n, k] */
  SWR_NN = 1, /* A [m, k], B [k, n] */
  SWR_TN = 2  /* A [k, m], B [k, n] */
} swr_layout;

typedef struct swr_problem {
  int32_t batch;
  int32_t heads_q;
  int32_t heads_kv; /* Divides heads_q. */
  int32_t seq_q;
  int32_t seq_kv;
  int32_t head_dim;        /* Multiple of 16, at most 256. */
  int32_t dtype;           /* swr_dtype */
  int32_t causal;          /* 0 or 1; aligned to the bottom right. */
  int32_t alignment_bytes; /* 2, 4, 8 or 16: divides every address and stride. */
} swr_problem;

/* C = alpha A B + beta C for each item of a batch; C is [m, n], the sum runs over k. */
typedef struct swr_gemm_problem {
  int32_t m;
  int32_t n;
  int32_t k;
  int32_t batch;
  int32_t dtype;           /* swr_dtype of A and B. */
  int32_t output;          /* swr_dtype of C. */
  int32_t layout;          /* swr_layout */
  int32_t reads_c;         /* 1 when beta may differ from 0. */
  int32_t alignment_bytes; /* 2, 4, 8 or 16: divides every address and stride. */
} swr_gemm_problem;

typedef struct swr_device {
  char name[256];
  int32_t sm_arch; /* major * 10 + minor */
  int32_t sm_count;
  int64_t l2_bytes;
  double dram_gb_per_s;
  int32_t mig;
  int32_t smem_per_cta_bytes;
  int32_t smem_per_sm_bytes;
  int32_t smem_reserved_per_cta_bytes;
  int32_t registers_per_sm;
  int32_t max_threads_per_sm;
  int32_t max_ctas_per_sm;
} swr_device;

/* A GPU of this machine. Opens the driver. */
swr_status swr_present_device(int32_t ordinal, swr_device* device);
/* A GPU by the id of its built-in profile, such as "h200"; it need not be present. */
swr_status swr_profiled_device(const char* id, swr_device* device);

typedef enum swr_match {
  SWR_EXACT = 0,        /* Measured for this problem on this device. */
  SWR_NEAREST = 1,      /* Measured for another shape on this device. */
  SWR_SAME_ARCH = 2,    /* Measured on another device of the architecture. */
  SWR_DEFAULT_ONLY = 3, /* Nothing stored fits, and no closed form chooses. */
  SWR_PREDICTED = 4,    /* Only predictions fit. */
  SWR_MODELLED = 5,     /* Nothing near is stored: chosen from shape and device by a closed form. */
  SWR_DEFAULT = SWR_DEFAULT_ONLY /* Its name before others had theirs. */
} swr_match;

/* "exact", "default_only" and so on, as in C++, Python and swr-tune; "" for any other number. */
const char* swr_match_text(int32_t match);

typedef struct swr_answer {
  char variant[512]; /* The key, one name=value per axis. */
  int32_t match;     /* swr_match */
  int32_t on_same_device;
  double distance;   /* From the stored shape, in octaves. */
  double time_us;    /* Expected; negative when unknown. */
  int64_t l2_misses; /* Expected, in sectors of 32 bytes; negative when unknown. */
  /* In the database. 0 where none of its results answers: with SWR_DEFAULT_ONLY and SWR_MODELLED,
   * and where what answers came with swr. */
  int64_t result_id;
  swr_problem stored_problem;
} swr_answer;

/* The same of GEMM. */
typedef struct swr_gemm_answer {
  char variant[512];
  int32_t match;
  int32_t on_same_device;
  double distance;
  double time_us;
  int64_t l2_misses;
  int64_t result_id;
  swr_gemm_problem stored_problem;
} swr_gemm_answer;

/* A database for questions; needs neither NVRTC nor a driver. */
typedef struct swr_lookup swr_lookup;
/* `database` may be NULL: then what comes with swr answers alone.
 * Results timed on a "warm" L2 answer (also for NULL), or those on a "cold" one: `l2_state`. */
swr_status swr_lookup_open(const char* database, const char* l2_state, swr_lookup** lookup);
swr_status swr_lookup_best(const swr_lookup* lookup, const swr_problem* problem,
                           const swr_device* device, swr_answer* answer);
swr_status swr_lookup_best_gemm(const swr_lookup* lookup, const swr_gemm_problem* problem,
                                const swr_device* device, swr_gemm_answer* answer);
/* Reads the file again when it has changed. `changed` may be NULL. */
swr_status swr_lookup_refresh(swr_lookup* lookup, int32_t* changed);
void swr_lookup_close(swr_lookup* lookup);

/* Where kernels come from. Any of the paths may be NULL. */
typedef struct swr_runtime_options {
  const char* database;
  const char* exported;  /* Written by swr-tune export --format dir. */
  const char* cache_dir; /* Cubin cache; refused where others may write to it. */
  const char* nvrtc;     /* Library; NULL searches. */
  int32_t may_compile;   /* 0 forbids compiling. */
  const char* l2_state;  /* As for swr_lookup_open. */
} swr_runtime_options;

/* Strides in elements; head_dim is contiguous. */
typedef struct swr_strides {
  int64_t batch;
  int64_t head;
  int64_t seq;
} swr_strides;

/* O = softmax(scale * Q K^T + mask) V over q, o [batch, heads_q, seq_q, head_dim] and
 * k, v [batch, heads_kv, seq_kv, head_dim] in device memory. */
typedef struct swr_attention {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse; /* [batch, heads_q, seq_q], contiguous, natural logarithm; NULL when not wanted. */
  swr_strides q_strides;
  swr_strides k_strides;
  swr_strides v_strides;
  swr_strides o_strides;
  int32_t batch;
  int32_t heads_q;
  int32_t heads_kv;
  int32_t seq_q;
  int32_t seq_kv;
  int32_t head_dim;
  int32_t dtype;  /* swr_dtype */
  int32_t causal; /* 0 or 1 */
  float scale;    /* Positive; 0 stands for 1 / sqrt(head_dim). */
} swr_attention;

/* Strides in elements; a row's elements are contiguous. */
typedef struct swr_matrix_strides {
  int64_t batch;
  int64_t row;
} swr_matrix_strides;

/* C = alpha A B + beta C over matrices in device memory. C is read when beta is not 0, and A and B
 * when alpha is not 0: else they may be NULL. Sizes may be 0. */
typedef struct swr_gemm {
  const void* a;
  const void* b;
  void* c;
  swr_matrix_strides a_strides;
  swr_matrix_strides b_strides;
  swr_matrix_strides c_strides;
  int32_t m;
  int32_t n;
  int32_t k;
  int32_t batch;
  int32_t dtype;  /* swr_dtype of A and B. */
  int32_t output; /* swr_dtype of C. */
  int32_t layout; /* swr_layout */
  float alpha;
  float beta;
} swr_gemm;

/* Elements that share a scale (of A; of B a block is 128 x 128), how sums of FP8 are formed, and
 * what is done to C. */
typedef enum swr_scaling {
  SWR_UNSCALED = 0,
  SWR_TENSOR = 1,
  SWR_ROW = 2,
  SWR_BLOCK = 3
} swr_scaling;
typedef enum swr_accuracy { SWR_FAST = 0, SWR_TWO_LEVEL = 1 } swr_accuracy;
typedef enum swr_activation {
  SWR_NO_ACTIVATION = 0,
  SWR_GELU = 1,
  SWR_GELU_TANH = 2,
  SWR_SILU = 3
} swr_activation;

/* What a product takes beside A, B and C: with P = alpha * scales * A B + bias,
 * C = activation(P) + beta * addend, or where it is gated, B having 2 n rows,
 * C = activation(P[:, :n]) * P[:, n:] + beta * addend. Pointers are to device memory, at multiples
 * of 8 bytes. */
typedef struct swr_gemm_extras {
  int32_t scaling;        /* swr_scaling of A and B of FP8. */
  int32_t accuracy;       /* swr_accuracy; SWR_BLOCK takes SWR_TWO_LEVEL. */
  int32_t activation;     /* swr_activation */
  int32_t gated;          /* 0 or 1 */
  int32_t output_scaling; /* Of C of e4m3: SWR_TENSOR or SWR_BLOCK. */
  /* Of SWR_BLOCK, elements from one row of scales to the next: of A a multiple of 4, and its scales
   * begin at a multiple of 16 bytes. */
  int32_t a_scale_stride;
  int32_t b_scale_stride;
  int32_t c_scale_stride;
  /* SWR_TENSOR: one value each. SWR_ROW: m, and one of each row of B. SWR_BLOCK: [k / 128, m] and
   * [n / 128, k / 128], rounded up. */
  const float* a_scales;
  const float* b_scales;
  const void* bias;   /* One of each row of B, of C's type (bf16 for e4m3), or NULL. */
  const void* addend; /* Read instead of C, with C's strides, or NULL. */
  float* c_scales;    /* By what C is multiplied (SWR_TENSOR), or where [n / 128, m] scales go. */
} swr_gemm_extras;
/* Where the rows of A and C lie that belong to each item of B's batch, which numbers on the device
 * tell; swr/gemm_axes.h says how. */
typedef enum swr_groups {
  SWR_OFFSETS = 1,    /* One number per item: the row that ends its rows. */
  SWR_CONTIGUOUS = 2, /* One per row: its item, or -1; items have whole runs of 128 rows. */
  SWR_MASKED = 3      /* One per item: how many rows it has of its own matrix. */
} swr_groups;

/* A product for each item of B's batch, of at most 512, with the rows of A that belong to it. */
typedef struct swr_grouped_gemm {
  swr_gemm gemm;         /* m counts rows of A, with SWR_MASKED of an item's. beta must be 0. */
  int32_t groups;        /* swr_groups */
  int32_t expected_rows; /* Of an item, on average; 0: what m allows. Chooses the kernel. */
  int32_t skewed;        /* 1 where one item has half of the rows. Chooses the kernel. */
  /* Zeros but for activation and gate, the items of a gated B following one another. Of FP8
   * SWR_ROW, with a_scales of all rows of A and b_scales of the columns of all items, or SWR_BLOCK
   * where rows are contiguous or masked, the scales of items following one another. */
  swr_gemm_extras extras;
} swr_grouped_gemm;

typedef struct swr_runtime swr_runtime;
swr_status swr_runtime_create(const swr_runtime_options* options, swr_runtime** runtime);
/* Enqueues on `stream` (CUstream or cudaStream_t) of the current context, or of that of the tensors
 * where none is current on this thread, which it then becomes; so do all that follow. The first
 * call for a problem in a context gets and loads its kernel; later ones neither allocate nor
 * synchronise. Batch and lengths may be 0: rows without keys are 0 and have a log-sum-exp of
 * -infinity. */
swr_status swr_runtime_attention(swr_runtime* runtime, const swr_attention* attention,
                                 void* stream);
/* The same for callers that keep descriptions: the pointers in `attention` are ignored and those
 * given count, so that threads may share one description. */
swr_status swr_runtime_attention_at(swr_runtime* runtime, const swr_attention* attention,
                                    const void* q, const void* k, const void* v, void* o,
                                    float* lse, void* stream);
/* As for attention. A kernel that splits k takes memory of the runtime, which a stream's first such
 * launch, one that needs more than those before, and every captured one allocate. */
swr_status swr_runtime_gemm(swr_runtime* runtime, const swr_gemm* gemm, void* stream);
swr_status swr_runtime_gemm_at(swr_runtime* runtime, const swr_gemm* gemm, const void* a,
                               const void* b, void* c, void* stream);
/* The same of a product with scales, bias, activation or gate; `gemm` as for swr_runtime_gemm. */
swr_status swr_runtime_fused_gemm(swr_runtime* runtime, const swr_gemm* gemm,
                                  const swr_gemm_extras* extras, void* stream);
/* The host never reads `numbers`, so a captured launch follows what they say when it is replayed.
 */
swr_status swr_runtime_grouped_gemm_at(swr_runtime* runtime, const swr_grouped_gemm* gemm,
                                       const void* a, const void* b, void* c,
                                       const int32_t* numbers, void* stream);
/* All but the launch, in the current context, or the first device's where none is current. `answer`
 * may be NULL. */
swr_status swr_runtime_prepare(swr_runtime* runtime, const swr_problem* problem,
                               swr_answer* answer);
swr_status swr_runtime_prepare_gemm(swr_runtime* runtime, const swr_gemm_problem* problem,
                                    swr_gemm_answer* answer);
/* From now on notes in `file`, for swr-tune tune --missed, each problem whose kernel was chosen
 * without a measurement of exactly this problem. Its first call alone pays for it. */
swr_status swr_runtime_note_missed(swr_runtime* runtime, const char* file);
/* From now on kernels come from this archive (docs/shipped_kernels.md) where they would be
 * compiled, in place of the one that is installed. */
swr_status swr_runtime_use_kernels(swr_runtime* runtime, const char* file);
swr_status swr_runtime_refresh(swr_runtime* runtime, int32_t* changed);
/* Before the contexts that it was used in are destroyed. */
void swr_runtime_destroy(swr_runtime* runtime);

#ifdef __cplusplus
}
#endif
