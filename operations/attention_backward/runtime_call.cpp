// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "driver/cuda_driver.h"
#include "operations/strided_memset.h"
#include "runtime/alignment.h"
#include <swr/attention_backward_problem.h>
#include <swr/kernel.h>
#include <swr/runtime.h>

namespace swr {
namespace {

/// How a tensor [batch, heads, seq, columns] enters the alignment of all.
struct AlignedTensor {
  const void* pointer;
  const char* name;
  const TensorStrides& strides;
  int heads;
  int seq;
};

/// Where there is no score all gradients are 0.
void differentiate_nothing(const AttentionBackwardCall& call, CUstream stream) {
  const AttentionBackwardParams& p = call.params;
  validate(AttentionBackwardProblem{.batch = at_least_one(p.batch),
                                    .heads_q = p.heads_q,
                                    .heads_kv = p.heads_kv,
                                    .seq_q = at_least_one(p.seq_q),
                                    .seq_kv = at_least_one(p.seq_kv),
                                    .head_dim = call.head_dim,
                                    .head_dim_v = call.head_dim_v});
  if (p.batch == 0 || p.seq_q == p.seq_kv) {
    return;
  }
  enter_context(p.seq_q == 0 ? p.dk : p.dq);
  zero({p.dq, p.dq_strides, p.batch, p.heads_q, p.seq_q, call.head_dim}, stream);
  zero({p.dk, p.dk_strides, p.batch, p.heads_kv, p.seq_kv, call.head_dim}, stream);
  zero({p.dv, p.dv_strides, p.batch, p.heads_kv, p.seq_kv, call.head_dim_v}, stream);
}

}  // namespace

bool is_empty(const AttentionBackwardCall& call) {
  const AttentionBackwardParams& p = call.params;
  return p.batch == 0 || p.seq_q == 0 || p.seq_kv == 0;
}

AttentionBackwardProblem problem_of(const AttentionBackwardCall& call) {
  const AttentionBackwardParams& p = call.params;
  AttentionBackwardProblem problem{.batch = p.batch,
                                   .heads_q = p.heads_q,
                                   .heads_kv = p.heads_kv,
                                   .seq_q = p.seq_q,
                                   .seq_kv = p.seq_kv,
                                   .head_dim = call.head_dim,
                                   .head_dim_v = call.head_dim_v,
                                   .dtype = call.dtype,
                                   .causal = call.causal,
                                   .deterministic = call.deterministic};
  const int bytes = element_bytes(call.dtype);
  Alignment alignment;
  for (const AlignedTensor& tensor : {
           AlignedTensor{p.q, "Q", p.q_strides, p.heads_q, p.seq_q},
           AlignedTensor{p.k, "K", p.k_strides, p.heads_kv, p.seq_kv},
           AlignedTensor{p.v, "V", p.v_strides, p.heads_kv, p.seq_kv},
           AlignedTensor{p.o, "O", p.o_strides, p.heads_q, p.seq_q},
           AlignedTensor{p.d_o, "dO", p.d_o_strides, p.heads_q, p.seq_q},
           AlignedTensor{p.dq, "dQ", p.dq_strides, p.heads_q, p.seq_q},
           AlignedTensor{p.dk, "dK", p.dk_strides, p.heads_kv, p.seq_kv},
           AlignedTensor{p.dv, "dV", p.dv_strides, p.heads_kv, p.seq_kv},
       }) {
    alignment.add_pointer(tensor.pointer, tensor.name);
    alignment.add_stride(tensor.strides.batch, p.batch, bytes);
    alignment.add_stride(tensor.strides.head, tensor.heads, bytes);
    alignment.add_stride(tensor.strides.seq, tensor.seq, bytes);
  }
  if (p.lse == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "backward needs the log-sum-exps that forward wrote; ask forward for them");
  }
  problem.alignment_bytes = alignment.bytes(bytes);
  validate(problem);
  return problem;
}

void Runtime::attention_backward(const AttentionBackwardCall& call, CUstream_st* stream) {
  if (is_empty(call)) {
    differentiate_nothing(call, stream);
    return;
  }
  launch(problem_of(call), &call, call.params.q, stream);
}

/// What fits an SM changes nothing of it.
long long Runtime::attention_backward_workspace(const AttentionBackwardProblem& problem,
                                                const void* memory) {
  enter_context(memory);
  return launch_geometry(problem, prepare(problem).variant, 1, 1).partials_bytes;
}

}  // namespace swr
