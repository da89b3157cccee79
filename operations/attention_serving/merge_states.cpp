// SPDX-License-Identifier: MIT
#include "driver/kernel_launch.h"
#include "operations/attention_serving/call_checks.h"
#include "operations/attention_serving/launch_plan.h"
#include "operations/attention_serving/serving_launch.h"

#include <cmath>

namespace swr {
namespace {

constexpr const char* kFile = "attention_serving/merge/merge_states.cu";

/// Empty where there is no such kernel.
const char* entry_of(OutputType of_parts, OutputType of_output) {
  if (of_parts == of_output) {
    switch (of_output) {
      case OutputType::fp16:
        return "swr_merge_states_fp16";
      case OutputType::bf16:
        return "swr_merge_states_bf16";
      case OutputType::fp32:
        return "swr_merge_states_fp32";
    }
  }
  if (of_parts != OutputType::fp32) {
    return nullptr;
  }
  return of_output == OutputType::fp16 ? "swr_merge_states_fp32_to_fp16"
                                       : "swr_merge_states_fp32_to_bf16";
}

}  // namespace

void validate(const MergeStatesCall& call) {
  const MergeStatesParams& p = call.params;
  require_call(entry_of(call.part_type, call.output_type) != nullptr,
               "the parts must have the output's type, or be fp32");
  require_count(p.part_count, 1, 1 << 20, "parts");
  require_count(p.heads, 1, 1 << 15, "heads");
  require_count(p.rows, 0, 1LL << 30, "rows");
  require_count(p.head_dim, 8, 1024, "head_dim");
  require_call(p.head_dim % 8 == 0, "head_dim must be a multiple of 8 to be merged");
  require_call(p.lse_unit > 0.0F && std::isfinite(p.lse_unit),
               "the unit of logarithms must be positive");
  if (p.rows == 0) {
    return;
  }
  require_tensor(p.parts, "parts");
  require_tensor(p.o, "o");
  require_call(p.part_lse != nullptr, "parts need their log-sum-exps: part_lse is NULL");
  require_aligned(p.part_lse, "part_lse", alignof(float));
  require_aligned(p.lse, "lse", alignof(float));
  const long long of_parts = call.part_type == OutputType::fp32 ? 4 : 8;
  const long long of_output = call.output_type == OutputType::fp32 ? 4 : 8;
  require_strides(p.part_strides, p.part_count, p.heads, p.rows, of_parts, "parts");
  require_strides(p.o_strides, 1, p.heads, p.rows, of_output, "o");
}

void launch_merge(const MergeStatesCall& call, const FixedSite& site, CUstream stream) {
  MergeStatesParams params = call.params;
  void* arguments[] = {&params};
  const CUfunction function =
      site.kernels.function(kFile, entry_of(call.part_type, call.output_type));
  require_success(
      launch_grid(site.calls, function,
                  {.ctas = merge_ctas(params, site.device.sm_count),
                   .threads = kThreadsBesideAttention,
                   .dynamic_smem_bytes = 0},
                  overlap_where(may_overlap_beside(site.device.sm_arch)), stream, arguments),
      "cuLaunchKernelEx");
}

}  // namespace swr
