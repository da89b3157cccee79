// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "driver/cuda_driver.h"
#include "operations/strided_memset.h"
#include "runtime/alignment.h"
#include <swr/attention_problem.h>
#include <swr/runtime.h>

#include <bit>
#include <limits>

namespace swr {
namespace {

void add_strides(Alignment& alignment, const TensorStrides& strides, int batch, int heads, int seq,
                 DType dtype) {
  alignment.add_stride(strides.batch, batch, element_bytes(dtype));
  alignment.add_stride(strides.head, heads, element_bytes(dtype));
  alignment.add_stride(strides.seq, seq, element_bytes(dtype));
}

bool is_empty(const AttentionCall& call) {
  const AttentionParams& p = call.params;
  return p.batch == 0 || p.seq_q == 0 || p.seq_kv == 0;
}

/// Rows without keys are 0 and their log-sum-exps -infinity.
void attend_to_nothing(const AttentionCall& call, CUstream stream) {
  const AttentionParams& p = call.params;
  validate(AttentionProblem{.batch = at_least_one(p.batch),
                            .heads_q = p.heads_q,
                            .heads_kv = p.heads_kv,
                            .seq_q = at_least_one(p.seq_q),
                            .seq_kv = at_least_one(p.seq_kv),
                            .head_dim = call.head_dim});
  const auto rows = static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.heads_q) *
                    static_cast<std::size_t>(p.seq_q);
  if (rows == 0) {
    return;
  }
  enter_context(p.o);
  zero({p.o, p.o_strides, p.batch, p.heads_q, p.seq_q, call.head_dim}, stream);
  if (p.lse != nullptr) {
    cuda_driver().memset_words_async(
        reinterpret_cast<CUdeviceptr>(p.lse),
        std::bit_cast<unsigned>(-std::numeric_limits<float>::infinity()), rows, stream);
  }
}

}  // namespace

AttentionProblem problem_of(const AttentionCall& call) {
  const AttentionParams& p = call.params;
  AttentionProblem problem{.batch = p.batch,
                           .heads_q = p.heads_q,
                           .heads_kv = p.heads_kv,
                           .seq_q = p.seq_q,
                           .seq_kv = p.seq_kv,
                           .head_dim = call.head_dim,
                           .dtype = call.dtype,
                           .causal = call.causal};
  Alignment alignment;
  alignment.add_pointer(p.q, "Q");
  alignment.add_pointer(p.k, "K");
  alignment.add_pointer(p.v, "V");
  alignment.add_pointer(p.o, "O");
  add_strides(alignment, p.q_strides, p.batch, p.heads_q, p.seq_q, call.dtype);
  add_strides(alignment, p.k_strides, p.batch, p.heads_kv, p.seq_kv, call.dtype);
  add_strides(alignment, p.v_strides, p.batch, p.heads_kv, p.seq_kv, call.dtype);
  add_strides(alignment, p.o_strides, p.batch, p.heads_q, p.seq_q, call.dtype);
  problem.alignment_bytes = alignment.bytes(element_bytes(call.dtype));
  validate(problem);
  return problem;
}

void Runtime::attention(const AttentionCall& call, CUstream_st* stream) {
  if (is_empty(call)) {
    attend_to_nothing(call, stream);
    return;
  }
  launch(problem_of(call), &call, call.params.q, stream);
}

}  // namespace swr
