// SPDX-License-Identifier: MIT
// Launches by programs.
#include "driver/cuda_driver.h"
#include "driver/ready_launch.h"
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include <swr/error.h>
#include <swr/runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string>

namespace swr {
namespace {

class ReadyAttentionBackward final : public ReadyLaunch {
 public:
  ReadyAttentionBackward(const AttentionBackwardPlan& plan, const ServingTools& tools)
      : plan_(plan), split_memory_(tools.split_memory) {}

  void launch(const void* of_backward, const LaunchSite& site) const override {
    const auto& call = *static_cast<const AttentionBackwardCall*>(of_backward);
    AttentionBackwardParams params = call.params;
    if (params.scale == 0.0F) {
      params.scale = 1.0F / std::sqrt(static_cast<float>(plan_.head_dim));
    }
    params.scale_log2 = params.scale * std::numbers::log2e_v<float>;
    const AttentionBackwardGeometry geometry = attention_backward_geometry(plan_, params);
    place_workspace(params, plan_, geometry, workspace(call, geometry, site.stream));
    require_success(launch_attention_backward(site.calls, backward_functions(site.functions), plan_,
                                              geometry, params, site.overlap, site.stream),
                    "cuLaunchKernelEx");
  }

 private:
  void* workspace(const AttentionBackwardCall& call, const AttentionBackwardGeometry& geometry,
                  CUstream stream) const {
    const long long needed = geometry.workspace.bytes;
    if (call.workspace == nullptr) {
      SplitMemory::Part part;
      require_success(split_memory_.of_launch(stream, static_cast<std::size_t>(needed), 0, part),
                      "finding memory for the workspace of attention backward");
      return part.partials;
    }
    if (call.workspace_bytes < needed) {
      throw Error(ErrorCode::invalid_argument,
                  "the workspace has " + std::to_string(call.workspace_bytes) +
                      " bytes and the call needs " + std::to_string(needed) +
                      "; ask for the size before each call, since another choice may need more");
    }
    if (reinterpret_cast<std::uintptr_t>(call.workspace) % backward::kWorkspaceAlignment != 0) {
      throw Error(ErrorCode::invalid_argument, "the workspace must be aligned to 256 bytes");
    }
    return call.workspace;
  }

  AttentionBackwardPlan plan_;
  SplitMemory& split_memory_;
};

}  // namespace

std::unique_ptr<ReadyLaunch> make_ready_attention_backward(const AttentionBackwardProblem& problem,
                                                           const AttentionBackwardVariant& variant,
                                                           int ctas_per_sm,
                                                           const ServingTools& tools) {
  return std::make_unique<ReadyAttentionBackward>(
      plan_of(problem, variant, tools.device.sm_count, ctas_per_sm), tools);
}

}  // namespace swr
