// SPDX-License-Identifier: MIT
#include "runtime/alignment.h"
#include <swr/attention_problem.h>
#include <swr/runtime.h>

namespace swr {
namespace {

void add_strides(Alignment& alignment, const TensorStrides& strides, int batch, int heads, int seq,
                 DType dtype) {
  alignment.add_stride(strides.batch, batch, element_bytes(dtype));
  alignment.add_stride(strides.head, heads, element_bytes(dtype));
  alignment.add_stride(strides.seq, seq, element_bytes(dtype));
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
  launch(problem_of(call), &call, call.params.q, stream);
}

}  // namespace swr
