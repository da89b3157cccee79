// SPDX-License-Identifier: MIT
// The table of embedded attention kernels.
#pragma once

#include "export/package/embedded.h"
#include "operations/attention/launch_plan.h"
#include <swr/attention_params.h>
#include <swr/axes.h>

#include <compare>
#include <cstddef>
#include <string>
#include <tuple>

namespace swr_package {

/// What is asked, or what a kernel was tuned for.
struct AttentionProblem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 1;
  int seq_kv = 1;
  int head_dim = 64;
  swr::DType dtype = swr::DType::fp16;
  bool causal = false;
  int alignment_bytes = 16;

  auto operator<=>(const AttentionProblem&) const = default;

  auto kind() const { return std::tuple(head_dim, dtype, causal, alignment_bytes); }
  Sizes sizes() const { return {batch, heads_q, heads_kv, seq_q, seq_kv}; }
  std::string describe() const {
    return "batch " + text(batch) + ", heads " + text(heads_q) + "/" + text(heads_kv) +
           ", lengths " + text(seq_q) + "/" + text(seq_kv) + ", head_dim " + text(head_dim) +
           (dtype == swr::DType::fp16 ? ", fp16" : ", bf16") + (causal ? ", causal" : "") +
           ", alignment " + text(alignment_bytes);
  }
};

struct AttentionKernel {
  EmbeddedKernel embedded;
  AttentionProblem problem;
  swr::AttentionLaunchPlan plan;
  /// A persistent launch has as many CTAs as are resident, rather than plan.workers.
  bool fills_device;

  bool fits(const AttentionProblem& asked, int smem_per_cta_bytes) const {
    const int heads = asked.batch * (plan.pack_gqa ? asked.heads_kv : asked.heads_q);
    return plan.dynamic_smem_bytes <= smem_per_cta_bytes &&
           swr::is_distinct_mapping(plan.swizzle, plan.section_heads, heads) &&
           (!plan.pack_gqa || asked.heads_q > asked.heads_kv) && splits_fit(asked);
  }

  /// Every split has a tile of K and V, and what splits leave is as little as swr allows.
  bool splits_fit(const AttentionProblem& asked) const {
    if (plan.kv_splits == 1) {
      return true;
    }
    swr::AttentionParams params;
    params.batch = asked.batch;
    params.heads_q = asked.heads_q;
    params.heads_kv = asked.heads_kv;
    params.seq_q = asked.seq_q;
    return plan.kv_splits <= swr::ceil_div(asked.seq_kv, plan.tile_n) &&
           swr::launch_geometry(plan, params).partials_bytes <= swr::kMostPartialsBytes;
  }
};

extern const AttentionKernel kAttentionKernels[];
extern const std::size_t kAttentionKernelCount;

}  // namespace swr_package
