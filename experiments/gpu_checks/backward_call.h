// SPDX-License-Identifier: MIT
// A call of attention backward in memory of its own, launched as the operation launches it.
#pragma once

#include "experiments/gpu_checks/backward_kernels.h"
#include "experiments/gpu_checks/backward_memory.h"
#include "operations/attention_backward/launch.h"
#include "tests/emulation/attention_backward_reference.h"

#include <cmath>
#include <cstddef>
#include <dlfcn.h>
#include <string>

namespace swr::gpu {

using emulation::AttentionCase;

/// What launches need of the driver; libcuda is not linked.
inline const LaunchCalls& driver_calls() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  static const LaunchCalls calls =
      find_launch_calls([](const char* name) { return dlsym(library, name); });
  return calls;
}

inline CUfunction loaded(const void* entry) {
  cudaFunction_t function = nullptr;
  if (entry != nullptr) {
    check(cudaGetFuncBySymbol(&function, entry), "cudaGetFuncBySymbol");
  }
  return function;
}

/// How a call is launched, besides what is compiled in.
struct Dealing {
  int parts = 1;
  int section_heads = 1;
  bool last_kv_first = false;
  int bands = 1;             ///< Not of tiles that rotate and take turns.
  bool by_sequence = false;  ///< Tensors lie as [batch, seq, heads, columns].
};

/// All memory of a call of kernels I, and its launches.
template <std::size_t I>
class Call {
 public:
  static constexpr auto K = backward_kernels_of<I>().key;
  static constexpr QueryPassConfig Q = backward_kernels_of<I>().query;

  Call(const AttentionCase& problem, const Dealing& dealing)
      : problem_(problem),
        by_sequence_(dealing.by_sequence),
        q_(bytes(problem.heads_q, problem.seq_q, K.head_dim)),
        k_(bytes(problem.heads_kv, problem.seq_kv, K.head_dim)),
        v_(bytes(problem.heads_kv, problem.seq_kv, K.value_dim)),
        o_(bytes(problem.heads_q, problem.seq_q, K.value_dim)),
        d_o_(bytes(problem.heads_q, problem.seq_q, K.value_dim)),
        lse_(bytes(problem.heads_q, problem.seq_q, 2)),
        dq_(bytes(problem.heads_q, problem.seq_q, K.head_dim)),
        dk_(bytes(problem.heads_kv, problem.seq_kv, K.head_dim)),
        dv_(bytes(problem.heads_kv, problem.seq_kv, K.value_dim)),
        plan_(make_plan(dealing)),
        params_(make_params(plan_)),
        geometry_(attention_backward_geometry(plan_, params_)),
        workspace_(static_cast<std::size_t>(geometry_.workspace.bytes)) {
    place_workspace(params_, plan_, geometry_, workspace_.data());
  }

  const Memory& q() const { return q_; }
  const Memory& k() const { return k_; }
  const Memory& v() const { return v_; }
  const Memory& o() const { return o_; }
  const Memory& d_o() const { return d_o_; }
  const Memory& lse() const { return lse_; }
  const Memory& dq() const { return dq_; }
  const Memory& dk() const { return dk_; }
  const Memory& dv() const { return dv_; }
  Shape row_shape(int columns) const {
    return {problem_.batch, problem_.heads_q, problem_.seq_q, columns, by_sequence_};
  }
  Shape key_shape(int columns) const {
    return {problem_.batch, problem_.heads_kv, problem_.seq_kv, columns, by_sequence_};
  }
  double workspace_mb() const { return static_cast<double>(geometry_.workspace.bytes) / 1e6; }

  /// All kernels of a call; each may begin while the one ahead ends.
  void launch() const {
    static const BackwardEntries entries = backward_entries<I>();
    static const BackwardFunctions functions{loaded(entries.key_pass), loaded(entries.query_pass),
                                             loaded(entries.prepare), loaded(entries.finish)};
    const CUresult result = launch_attention_backward(driver_calls(), functions, plan_, geometry_,
                                                      params_, LaunchOverlap::allowed, kStream);
    if (result != CUDA_SUCCESS) {
      end_section("launch: CUresult " + std::to_string(result));
    }
  }
  void poison_outputs() const {
    for (const Memory* const one : {&dq_, &dk_, &dv_}) {
      one->poison();
    }
  }
  long long disturbed() const {
    return dq_.disturbed() + dk_.disturbed() + dv_.disturbed() + workspace_.disturbed();
  }

 private:
  std::size_t bytes(int heads, int seq, int columns) const {
    return 2ULL * static_cast<std::size_t>(problem_.batch) * static_cast<std::size_t>(heads) *
           static_cast<std::size_t>(seq) * static_cast<std::size_t>(columns);
  }
  static int resident(const void* entry, int threads, int smem) {
    int per_sm = 0;
    check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, smem),
          "shared memory");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, entry, threads,
                                                        static_cast<std::size_t>(smem)),
          "occupancy");
    return per_sm;
  }
  static AttentionBackwardPlan make_plan(const Dealing& dealing) {
    int sms = 0;
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
    const BackwardEntries entries = backward_entries<I>();
    const int per_sm = resident(entries.key_pass, K.threads(), K.smem_bytes());
    const int query_per_sm = entries.query_pass == nullptr
                                 ? 1
                                 : resident(entries.query_pass, Q.threads(), Q.smem_bytes());
    AttentionBackwardPlan plan = plan_of_configs(K, Q);
    plan.workers = sms * per_sm;
    plan.swizzle = AttentionSwizzle::head_sections;
    plan.section_heads = dealing.section_heads;
    plan.parts = dealing.parts;
    plan.last_kv_first = dealing.last_kv_first;
    plan.bands = dealing.bands;
    plan.query_workers = sms * query_per_sm;
    return plan;
  }
  AttentionBackwardParams make_params(const AttentionBackwardPlan& plan) const {
    AttentionBackwardParams params;
    params.q = q_.data();
    params.k = k_.data();
    params.v = v_.data();
    params.o = o_.data();
    params.d_o = d_o_.data();
    params.lse = static_cast<const float*>(lse_.data());
    params.dq = dq_.data();
    params.dk = dk_.data();
    params.dv = dv_.data();
    params.q_strides = params.dq_strides = row_shape(K.head_dim).strides();
    params.o_strides = params.d_o_strides = row_shape(K.value_dim).strides();
    params.k_strides = params.dk_strides = key_shape(K.head_dim).strides();
    params.v_strides = params.dv_strides = key_shape(K.value_dim).strides();
    params.batch = problem_.batch;
    params.heads_q = problem_.heads_q;
    params.heads_kv = problem_.heads_kv;
    params.seq_q = problem_.seq_q;
    params.seq_kv = problem_.seq_kv;
    params.scale = static_cast<float>(problem_.scale);
    params.scale_log2 = static_cast<float>(problem_.scale / std::log(2.0));
    params.parts = plan.parts;
    return params;
  }

  AttentionCase problem_;
  bool by_sequence_;
  Memory q_;
  Memory k_;
  Memory v_;
  Memory o_;
  Memory d_o_;
  Memory lse_;
  Memory dq_;
  Memory dk_;
  Memory dv_;
  AttentionBackwardPlan plan_;
  AttentionBackwardParams params_;
  AttentionBackwardGeometry geometry_;
  Memory workspace_;
};

}  // namespace swr::gpu
