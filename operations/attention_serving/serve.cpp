// SPDX-License-Identifier: MIT
// Launches by programs: from bounds, whatever the lengths will be.
#include "operations/attention_serving/call_checks.h"
#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/serving_launch.h"

#include <cmath>
#include <numbers>
#include <string>

namespace swr {
namespace {

static_assert(kMostWorkers * sizeof(unsigned) <= ServingWorkspace::kZeroedBytes);

constexpr long long kPieceElements = 8;  ///< Of 16 bytes.

constexpr const char* kAppendFile = "attention_serving/append/append_kv.cu";

const char* append_entry(DType dtype) {
  return dtype == DType::bf16 ? "swr_append_kv_bf16" : "swr_append_kv_fp16";
}

float* floats_at(void* memory, long long bytes) {
  return reinterpret_cast<float*>(static_cast<char*>(memory) + bytes);
}

bool turns_queries(const ServingAttentionCall& call) {
  return call.append && call.append->rotary.cos != nullptr;
}

/// The memory of one launch: words that are counted with, then what CTAs share, then turned
/// queries.
struct LaunchMemory {
  unsigned* arrivals = nullptr;
  float* partials = nullptr;
  void* q_rotated = nullptr;
};

/// Turned queries lie one head after another, in the order of the rows of q.
TensorStrides rotated_strides(const ServingAttentionCall& call) {
  const ServingAttentionParams& p = call.params;
  const long long row = static_cast<long long>(p.heads_q) * call.head_dim;
  const long long batch = p.lengths.cu_seqlens_q != nullptr ? 0 : p.max_seq_q * row;
  return {batch, call.head_dim, row};
}

class ReadyServingAttention final : public ReadyLaunch {
 public:
  ReadyServingAttention(const ServingLaunchPlan& plan, const ServingAttentionVariant& variant,
                        const ServingTools& tools)
      : plan_(plan),
        variant_(variant),
        device_(tools.device),
        split_memory_(tools.split_memory),
        fixed_kernels_(tools.fixed_kernels) {}

  void launch(const void* of_serving, const LaunchSite& site) const override {
    const auto& call = *static_cast<const ServingAttentionCall*>(of_serving);
    ServingAttentionParams params = chosen(call);
    const ServingLaunch launch = serving_launch(plan_, params);
    const LaunchMemory memory = memory_of(call, launch, site);
    params.arrivals = memory.arrivals;
    params.partials = memory.partials;
    if (call.append) {
      append(call, memory.q_rotated, site);
    }
    if (turns_queries(call)) {
      params.q = memory.q_rotated;
      params.q_strides = rotated_strides(call);
    }
    if (launch.grid_x == 0) {
      return;  // No sequence may have a query.
    }
    launch_serving_attention(site, plan_.maps,
                             {.ctas = launch.grid_x,
                              .threads = launch.block_x,
                              .dynamic_smem_bytes = launch.dynamic_smem_bytes},
                             params);
  }

  long long prepare(const void* of_serving) const override {
    const auto& call = *static_cast<const ServingAttentionCall*>(of_serving);
    if (call.append) {
      fixed_kernels_.function(kAppendFile, append_entry(call.dtype));
    }
    return workspace_bytes(call, serving_launch(plan_, chosen(call)));
  }

 private:
  ServingAttentionParams chosen(const ServingAttentionCall& call) const {
    ServingAttentionParams params = call.params;
    set_choices(params, variant_);
    if (params.max_seq_kv == 0) {  // Nothing is read there, but maps ask for an address.
      params.k = params.v = params.o;
      params.k_strides = params.v_strides = {kPieceElements, kPieceElements, kPieceElements};
    }
    if (params.scale_log2 == 0.0F) {
      params.scale_log2 =
          std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(call.head_dim));
    }
    return params;
  }

  static long long rotated_bytes(const ServingAttentionCall& call) {
    constexpr int kElementBytes = 2;
    return turns_queries(call)
               ? most_query_rows(call.params) * call.params.heads_q * call.head_dim * kElementBytes
               : 0;
  }
  static long long workspace_bytes(const ServingAttentionCall& call, const ServingLaunch& launch) {
    return ServingWorkspace::kZeroedBytes + aligned(launch.partials_bytes) + rotated_bytes(call);
  }
  static long long aligned(long long bytes) {
    constexpr long long kAlignment = 256;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  LaunchMemory memory_of(const ServingAttentionCall& call, const ServingLaunch& launch,
                         const LaunchSite& site) const {
    if (call.workspace.memory != nullptr) {
      return memory_of_caller(call, launch);
    }
    const long long partials_bytes = aligned(launch.partials_bytes);
    const long long bytes = partials_bytes + rotated_bytes(call);
    SplitMemory::Part part;
    if (bytes > 0 || launch.arrival_words > 0) {
      require_success(split_memory_.of_launch(site.stream, static_cast<std::size_t>(bytes),
                                              static_cast<std::size_t>(launch.arrival_words), part),
                      "finding memory for what CTAs share");
    }
    return {part.arrivals, part.partials, floats_at(part.partials, partials_bytes)};
  }
  static LaunchMemory memory_of_caller(const ServingAttentionCall& call,
                                       const ServingLaunch& launch) {
    const ServingWorkspace& workspace = call.workspace;
    require_aligned(workspace.memory, "the workspace", 256);
    const long long needed = workspace_bytes(call, launch);
    if (workspace.bytes < needed) {
      throw Error(ErrorCode::invalid_argument,
                  "the workspace has " + std::to_string(workspace.bytes) +
                      " bytes, and the launch takes " + std::to_string(needed) +
                      "; ask again how many, with these bounds, after every refresh");
    }
    float* const partials = floats_at(workspace.memory, ServingWorkspace::kZeroedBytes);
    return {static_cast<unsigned*>(workspace.memory), partials,
            floats_at(partials, aligned(launch.partials_bytes))};
  }

  void append(const ServingAttentionCall& call, void* q_rotated, const LaunchSite& site) const {
    KvAppendParams params = *call.append;
    params.attention = call.params;
    params.head_dim = call.head_dim;
    params.head_dim_v = call.head_dim_v;
    params.q_rotated = turns_queries(call) ? q_rotated : nullptr;
    params.q_rotated_strides = rotated_strides(call);
    void* arguments[] = {&params};
    require_success(
        launch_grid(site.calls, fixed_kernels_.function(kAppendFile, append_entry(call.dtype)),
                    {.ctas = append_ctas(params, device_.sm_count),
                     .threads = kThreadsBesideAttention,
                     .dynamic_smem_bytes = 0},
                    overlap_where(may_overlap_beside(device_.sm_arch)), site.stream, arguments),
        "cuLaunchKernelEx");
  }

  ServingLaunchPlan plan_;
  ServingAttentionVariant variant_;
  const DeviceInfo& device_;
  SplitMemory& split_memory_;
  FixedKernels& fixed_kernels_;
};

}  // namespace

std::unique_ptr<ReadyLaunch> make_ready_serving_attention(const ServingAttentionProblem& problem,
                                                          const ServingAttentionVariant& variant,
                                                          int ctas_per_sm,
                                                          const ServingTools& tools) {
  return std::make_unique<ReadyServingAttention>(
      plan_of(problem, variant, tools.device.sm_count, ctas_per_sm), variant, tools);
}

}  // namespace swr
