// SPDX-License-Identifier: MIT
#include "operations/attention/attention_launch.h"
#include "operations/attention/config.h"
#include "operations/attention/parts.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/runtime.h>

#include <cmath>
#include <numbers>

namespace swr {
namespace {

float usual_scale_log2(int head_dim) {
  return std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(head_dim));
}

class ReadyAttention final : public ReadyLaunch {
 public:
  ReadyAttention(const AttentionLaunchPlan& plan, const ServingTools& tools)
      : plan_(plan),
        tile_counters_(plan.persistence == Persistence::dynamic ? &tools.tile_counters : nullptr),
        split_memory_(plan.kv_splits > 1 ? &tools.split_memory : nullptr) {
    if (tile_counters_ != nullptr) {
      require_success(tile_counters_->reserve(), "allocating tile counters");
    }
  }

  void launch(const void* of_attention, const LaunchSite& site) const override {
    const auto& call = *static_cast<const AttentionCall*>(of_attention);
    AttentionParams params = call.params;
    if (tile_counters_ != nullptr && params.tile_counter == nullptr) {
      require_success(tile_counters_->of_launch(site.stream, params.tile_counter),
                      "finding a tile counter");
    }
    if (split_memory_ != nullptr) {
      require_success(find_split_memory(*split_memory_, plan_, site.stream, params),
                      "finding memory for the results of splits");
    }
    if (params.scale_log2 == 0.0F) {
      params.scale_log2 = usual_scale_log2(call.head_dim);
    }
    require_success(
        launch_attention(site.calls, site.entry(), plan_, params, site.overlap, site.stream),
        "cuLaunchKernelEx");
  }

 private:
  AttentionLaunchPlan plan_;
  TileCounters* tile_counters_;  ///< nullptr when the kernel draws no tiles.
  SplitMemory* split_memory_;    ///< nullptr when there is one split.
};

}  // namespace

std::unique_ptr<ReadyLaunch> make_ready_attention(const AttentionProblem& problem,
                                                  const AttentionVariant& variant, int ctas_per_sm,
                                                  const ServingTools& tools) {
  return std::make_unique<ReadyAttention>(
      launch_plan(problem, variant, tools.device.sm_count, ctas_per_sm), tools);
}

}  // namespace swr
