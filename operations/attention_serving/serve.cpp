// SPDX-License-Identifier: MIT
// Launches by programs: from bounds, whatever the lengths will be.
#include "operations/attention_serving/parts.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace swr {
namespace {

class ReadyServingAttention final : public ReadyLaunch {
 public:
  ReadyServingAttention(const ServingLaunchPlan& plan, const ServingAttentionVariant& variant,
                        const ServingTools& tools)
      : plan_(plan), variant_(variant), split_memory_(tools.split_memory) {}

  void launch(const void* of_serving, const LaunchSite& site) const override {
    const auto& call = *static_cast<const ServingAttentionCall*>(of_serving);
    ServingAttentionParams params = call.params;
    set_choices(params, variant_);
    if (params.scale_log2 == 0.0F) {
      params.scale_log2 =
          std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(call.head_dim));
    }
    const ServingLaunch launch = serving_launch(plan_, params);
    if (launch.arrival_words > 0) {
      SplitMemory::Part part;
      require_success(
          split_memory_.of_launch(site.stream, static_cast<std::size_t>(launch.partials_bytes),
                                  static_cast<std::size_t>(launch.arrival_words), part),
          "finding memory for what CTAs share");
      params.partials = part.partials;
      params.arrivals = part.arrivals;
    }
    if (launch.grid_x == 0) {
      return;  // No sequence may have a query.
    }
    void* arguments[] = {&params};
    require_success(launch_grid(site.calls, site.function,
                                {.ctas = launch.grid_x,
                                 .threads = launch.block_x,
                                 .dynamic_smem_bytes = launch.dynamic_smem_bytes},
                                site.overlap, site.stream, arguments),
                    "cuLaunchKernelEx");
  }

 private:
  ServingLaunchPlan plan_;
  ServingAttentionVariant variant_;
  SplitMemory& split_memory_;
};

/// Keys before its own that a query sees at most.
int reach_of(const KeyWindow& window) {
  constexpr int kMost = 65535;
  const int left = window.left < 0 ? kMost : std::min(window.left, kMost);
  return window.chunk > 0 ? std::min(left, window.chunk - 1) : left;
}

}  // namespace

ServingAttentionProblem problem_of(const ServingAttentionCall& call) {
  const ServingAttentionParams& p = call.params;
  ServingAttentionProblem problem{
      .batch = p.batch,
      .heads_q = p.heads_q,
      .heads_kv = p.heads_kv,
      .seq_q = p.max_seq_q,
      .seq_kv = p.max_seq_kv,
      .head_dim = call.head_dim,
      .head_dim_v = call.head_dim_v,
      .dtype = call.dtype,
      .mask = call.mask,
      .window = call.mask == ServingMask::window ? reach_of(p.window) : 0,
      .softcap = call.softcap,
      .page_size = p.pages.page_size,
      .sinks = p.sinks != nullptr,
      .leftpad = p.lengths.leftpad_k != nullptr,
      .lengths = call.lengths};
  validate(problem);
  return problem;
}

std::unique_ptr<ReadyLaunch> make_ready_serving_attention(const ServingAttentionProblem& problem,
                                                          const ServingAttentionVariant& variant,
                                                          int ctas_per_sm,
                                                          const ServingTools& tools) {
  return std::make_unique<ReadyServingAttention>(
      plan_of(problem, variant, tools.device.sm_count, ctas_per_sm), variant, tools);
}

}  // namespace swr
