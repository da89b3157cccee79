// SPDX-License-Identifier: MIT
// The C interface of attention backward.
#include "capi/from_c.h"
#include <swr/attention_backward_problem.h>
#include <swr/swr_backward_c.h>

namespace {

using namespace swr::capi;

swr_attention_backward known_backward(const swr_attention_backward* given) {
  require_pointer(given, "backward");
  return known(given, sizeof(swr_attention_backward), "swr_attention_backward");
}

swr::AttentionBackwardCall call_from(const swr_attention_backward& a) {
  scale_log2_of(a.scale);  // Refuses what is no scale.
  swr::AttentionBackwardCall call{.params = {},
                                  .head_dim = a.head_dim,
                                  .head_dim_v = a.head_dim_v == 0 ? a.head_dim : a.head_dim_v,
                                  .dtype = dtype_of(a.dtype),
                                  .causal = a.causal != 0,
                                  .deterministic = a.deterministic != 0,
                                  .workspace = a.workspace,
                                  .workspace_bytes = a.workspace_bytes};
  swr::AttentionBackwardParams& p = call.params;
  p.q = a.q;
  p.k = a.k;
  p.v = a.v;
  p.o = a.o;
  p.d_o = a.d_o;
  p.lse = a.lse;
  p.d_lse = a.d_lse;
  p.dq = a.dq;
  p.dk = a.dk;
  p.dv = a.dv;
  p.q_strides = strides_from(a.q_strides);
  p.k_strides = strides_from(a.k_strides);
  p.v_strides = strides_from(a.v_strides);
  p.o_strides = strides_from(a.o_strides);
  p.d_o_strides = strides_from(a.d_o_strides);
  p.dq_strides = strides_from(a.dq_strides);
  p.dk_strides = strides_from(a.dk_strides);
  p.dv_strides = strides_from(a.dv_strides);
  p.batch = a.batch;
  p.heads_q = a.heads_q;
  p.heads_kv = a.heads_kv;
  p.seq_q = a.seq_q;
  p.seq_kv = a.seq_kv;
  p.scale = a.scale;
  return call;
}

/// An address that nobody reads, aligned as well as any, for tensors that are not there yet.
void* or_aligned(const void* tensor) {
  static constexpr std::uintptr_t kAligned = 256;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return tensor == nullptr ? reinterpret_cast<void*>(kAligned) : const_cast<void*>(tensor);
}

swr::AttentionBackwardProblem problem_from(const swr_attention_backward& backward) {
  swr::AttentionBackwardCall call = call_from(backward);
  swr::AttentionBackwardParams& p = call.params;
  for (const void** const tensor : {&p.q, &p.k, &p.v, &p.o, &p.d_o}) {
    *tensor = or_aligned(*tensor);
  }
  for (void** const tensor : {&p.dq, &p.dk, &p.dv}) {
    *tensor = or_aligned(*tensor);
  }
  p.lse = static_cast<const float*>(or_aligned(p.lse));
  return problem_of(call);
}

}  // namespace

extern "C" {

swr_status swr_runtime_attention_backward(swr_runtime* runtime,
                                          const swr_attention_backward* backward, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    runtime->runtime.attention_backward(call_from(known_backward(backward)),
                                        static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_prepare_backward(swr_runtime* runtime,
                                        const swr_attention_backward* backward,
                                        int64_t* workspace_bytes) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    const swr_attention_backward call = known_backward(backward);
    const bool needs_some = !swr::is_empty(call_from(call));
    const long long bytes =
        needs_some ? runtime->runtime.attention_backward_workspace(problem_from(call), call.q) : 0;
    if (workspace_bytes != nullptr) {
      *workspace_bytes = bytes;
    }
  });
}

}  // extern "C"
