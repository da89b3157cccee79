// SPDX-License-Identifier: MIT
#include "operations/attention/package/attention.h"

#include "driver/split_memory.h"
#include "driver/tile_counters.h"
#include "export/package/loaded_kernels.h"
#include "operations/attention/attention_launch.h"
#include "operations/attention/package/attention_kernels.h"

#include <cmath>
#include <cstddef>
#include <span>

namespace swr_package {
namespace {

void require_sizes(const AttentionProblem& problem) {
  for (const int size : problem.sizes()) {
    require_argument(size >= 1, "batch, heads and lengths must be at least 1, not " + text(size));
  }
  require_argument(problem.heads_q % problem.heads_kv == 0,
                   "heads_q must be a multiple of heads_kv");
  constexpr long long kMostHeads = 1 << 20;
  constexpr long long kMostRows = 1LL << 30;
  constexpr int kLongest = 1 << 24;
  const long long heads = static_cast<long long>(problem.batch) * problem.heads_q;
  require_argument(heads <= kMostHeads && heads * problem.seq_q <= kMostRows &&
                       problem.seq_q <= kLongest && problem.seq_kv <= kLongest,
                   "the problem is too large");
}

int alignment_bytes(const AttentionParams& p) {
  constexpr int kElementBytes = 2;
  Alignment alignment;
  for (const void* pointer : {p.q, p.k, p.v, static_cast<const void*>(p.o)}) {
    alignment.add_pointer(pointer);
  }
  const auto add = [&](const TensorStrides& strides, int heads, int seq) {
    alignment.add_stride(strides.batch, p.batch, kElementBytes);
    alignment.add_stride(strides.head, heads, kElementBytes);
    alignment.add_stride(strides.seq, seq, kElementBytes);
  };
  add(p.q_strides, p.heads_q, p.seq_q);
  add(p.k_strides, p.heads_kv, p.seq_kv);
  add(p.v_strides, p.heads_kv, p.seq_kv);
  add(p.o_strides, p.heads_q, p.seq_q);
  return alignment.bytes();
}

AttentionProblem problem_of(const Call& call) {
  const AttentionParams& p = call.params;
  AttentionProblem problem;
  problem.batch = p.batch;
  problem.heads_q = p.heads_q;
  problem.heads_kv = p.heads_kv;
  problem.seq_q = p.seq_q;
  problem.seq_kv = p.seq_kv;
  problem.head_dim = call.head_dim;
  problem.dtype = call.dtype;
  problem.causal = call.causal;
  require_sizes(problem);
  problem.alignment_bytes = alignment_bytes(p);
  return problem;
}

/// What is ready to be launched in one context.
struct Ready {
  const AttentionKernel* kernel = nullptr;
  const Device* device = nullptr;
  CUfunction function = nullptr;
  swr::AttentionLaunchPlan plan;
  /// Where the kernel's tiles are drawn; nullptr when it draws none.
  swr::TileCounters* tile_counters = nullptr;
  /// Where splits of K and V meet; nullptr when there is one.
  swr::SplitMemory* split_memory = nullptr;
};

/// What the launches of a context take device memory from.
struct LaunchMemory {
  explicit LaunchMemory(const swr::LaunchCalls& calls) : tile_counters(calls), splits(calls) {}

  swr::TileCounters tile_counters;
  swr::SplitMemory splits;
};

}  // namespace

struct Attention::Impl {
  using Loaded = LoadedKernels<AttentionProblem, Ready, LaunchMemory>;

  Ready make_ready(const AttentionProblem& problem, Loaded::Context& context) const {
    const AttentionKernel& kernel =
        choose(std::span(kAttentionKernels, kAttentionKernelCount), problem, context.device);
    Ready ready{&kernel, &context.device, nullptr, kernel.plan, nullptr, nullptr};
    ready.function = loaded.load(context, kernel.embedded, [&](CUfunction function) {
      return swr::prepare_attention(driver.launch, function, kernel.plan);
    });
    if (kernel.plan.persistence == swr::Persistence::dynamic) {
      driver.require(context.memory->tile_counters.reserve(), "allocating tile counters");
      ready.tile_counters = &context.memory->tile_counters;
    }
    if (kernel.plan.kv_splits > 1) {
      ready.split_memory = &context.memory->splits;
    }
    ready.plan.sm_count = context.device.point.sm_count;
    if (kernel.fills_device) {
      ready.plan.workers = driver.resident_workers(
          context.device, ready.function, ready.plan.threads, ready.plan.dynamic_smem_bytes);
      ready.plan.ctas_per_sm = ready.plan.workers / ready.plan.sm_count;
    }
    return ready;
  }

  Ready get(const AttentionProblem& problem) {
    return loaded.get(problem,
                      [&](Loaded::Context& context) { return make_ready(problem, context); });
  }

  Driver driver;
  Loaded loaded{driver};
};

Attention::Attention() : impl_(std::make_unique<Impl>()) {}
Attention::~Attention() = default;

void Attention::run(const Call& call, CUstream_st* stream) {
  const Ready ready = impl_->get(problem_of(call));
  AttentionParams params = call.params;
  if (params.scale_log2 == 0.0F) {
    constexpr float kLog2E = 1.44269504F;
    params.scale_log2 = kLog2E / std::sqrt(static_cast<float>(call.head_dim));
  }
  if (ready.tile_counters != nullptr && params.tile_counter == nullptr) {
    impl_->driver.require(ready.tile_counters->of_launch(stream, params.tile_counter),
                          "finding a tile counter");
  }
  if (ready.split_memory != nullptr) {
    impl_->driver.require(swr::find_split_memory(*ready.split_memory, ready.plan, stream, params),
                          "finding memory for the results of splits");
  }
  impl_->driver.require(
      swr::launch_attention(impl_->driver.launch, ready.function, ready.plan, params,
                            swr::overlap_where(ready.kernel->embedded.may_overlap), stream),
      "cuLaunchKernelEx");
}

Choice Attention::prepare(const Call& call) {
  const AttentionProblem problem = problem_of(call);
  const Ready ready = impl_->get(problem);
  return choice_of(*ready.kernel, problem, *ready.device);
}

}  // namespace swr_package
