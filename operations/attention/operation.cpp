// SPDX-License-Identifier: MIT
// Attention as an operation.
#include "core/architectures.h"
#include "core/typed_operation.h"
#include "operations/attention/attention_launch.h"
#include "operations/attention/config.h"
#include "operations/attention/model/l2_traffic.h"
#include "operations/attention/model/walk.h"
#include "operations/attention/parts.h"
#include "operations/attention/workload.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/runtime.h>

#include <array>
#include <cmath>
#include <limits>
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

namespace {

constexpr int kNoLastArch = std::numeric_limits<int>::max();

/// griddepcontrol exists from here on.
constexpr int kFirstWaitingArch = 90;

constexpr std::array kFamilySources{
    FamilySource{.family = Family::portable,
                 .file = "attention/portable/attention.cu",
                 .entry = "swr_attention",
                 .first_arch = 80,
                 .last_arch = kNoLastArch,
                 .first_waiting_arch = kFirstWaitingArch,
                 .arch_suffix = "",
                 .config_header = "selected_portable_attention_config.h"},
    FamilySource{.family = Family::hopper,
                 .file = "attention/hopper/attention.cu",
                 .entry = "swr_attention",
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kFirstWaitingArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_attention_config.h"},
};

constexpr TypedParts<AttentionProblem, AttentionVariant> kParts{
    .text = to_string,
    .file_name = file_name_of,
    .description = description_of,
    .description_without_order = description_without_order_of,
    .conflict_advice = conflict_advice_of,
    .modelled_variant = modelled_variant_of,
    .quick_time_us = quick_time_us_of,
    .trusted_octaves = trusted_octaves_of,
    .near_kind = near_kind_of,
    .without_launch_choices = kernel_choices,
    .without_tile_order = in_usual_tile_order,
    .is_split = has_splits};

class AttentionOperation final : public TypedOperation<AttentionProblem, AttentionVariant>,
                                 public OperationModel,
                                 public OperationServing,
                                 public OperationPackage {
 public:
  AttentionOperation() : TypedOperation(kParts) {}

  std::string_view name() const override { return "attention"; }
  std::string_view summary() const override { return "O = softmax(scale Q K^T + mask) V, forward"; }
  std::string_view example() const override {
    return "--seq 4096 --heads 16 --head-dim 128 --causal";
  }
  std::span<const ProblemField> fields() const override { return attention_fields(); }
  std::span<const Axis> axes() const override { return attention_axes(); }
  std::span<const ConstraintInfo> constraints() const override { return attention_constraints(); }
  std::span<const FamilySource> families() const override { return kFamilySources; }
  const Axis* order_axis() const override { return &axis_named(*this, "order"); }
  /// One for each score.
  double exponential_count(const Problem& problem) const override {
    return swr::flop_count(one(problem)) / 4 / one(problem).head_dim;
  }
  std::optional<Problem> reference_problem() const override {
    return AttentionProblem{
        .heads_q = 16, .heads_kv = 16, .seq_q = 4096, .seq_kv = 4096, .head_dim = 128};
  }
  bool multiplies_matrices() const override { return true; }
  /// FlashAttention-2 spills where it is the fastest that is published: a GB10 counts 46 bytes a
  /// thread and step that reach L2. The limit is under a third of what a warp reads of K and V.
  int tolerated_spill_bytes(const Variant& variant) const override {
    constexpr int kTolerated = 160;
    return family_of(variant) == Family::portable ? kTolerated : 0;
  }
  const Advice& advice() const override { return attention_advice(); }

  std::vector<VariantColumn> columns(std::span<const VariantResult> results) const override {
    using V = AttentionVariant;
    std::vector<VariantColumn> all{
        column("tile", true, tile_sizes_text),
        column("warps", true, [](const V& v) { return std::to_string(v.warps); }),
        column("stages", true, [](const V& v) { return std::to_string(v.stages); }),
        column("order", false, [](const V& v) { return to_string(v.order); }),
        column("persistence", false, [](const V& v) { return persistence_text(v); }),
        column("swizzle", false, [](const V& v) { return swizzle_text(v); }),
    };
    if (any_of(results, [](const V& v) { return v.longest_first; })) {
      all.push_back(column("Q tiles", false, [](const V& v) {
        return v.longest_first ? "longest first" : "in order";
      }));
    }
    if (any_of(results, [](const V& v) { return v.family == Family::hopper; })) {
      all.push_back(column("family", false, [](const V& v) { return to_string(v.family); }));
      all.push_back(column("mainloop", false, [](const V& v) {
        return v.family == Family::hopper ? hopper_text(v) : std::string("-");
      }));
    }
    if (any_of(results, [](const V& v) { return v.kv_splits > 1; })) {
      all.push_back(
          column("KV splits", true, [](const V& v) { return std::to_string(v.kv_splits); }));
    }
    if (any_of(results, [](const V& v) { return v.pack_gqa; })) {
      all.push_back(
          column("heads", false, [](const V& v) { return v.pack_gqa ? "packed" : "apart"; }));
    }
    if (any_of(results, [](const V& v) { return v.kv_copy != KvCopy::cp_async; })) {
      all.push_back(column("K and V by", false, [](const V& v) { return to_string(v.kv_copy); }));
    }
    if (any_of(results, [](const V& v) { return !v.smem_swizzle; })) {
      all.push_back(column("smem rows", false,
                           [](const V& v) { return v.smem_swizzle ? "swizzled" : "plain"; }));
    }
    return all;
  }

  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const override {
    return std::make_unique<AttentionWorkload>(one(problem), tools.kernels<ReferenceKernels>(),
                                               tools.stream, tools.sm_count, seed);
  }
  const OperationModel* model() const override { return this; }
  std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const override {
    return make_attention_predictor(profile);
  }
  std::optional<MissRatioCurve> miss_ratio_curve(
      const Problem& problem, const Variant& variant, int ctas_per_sm, const GpuProfile& profile,
      std::span<const long long> capacities_bytes) const override {
    if (beyond_walk_limits(make_schedule_shape(one(problem), one(variant), profile.device.sm_count,
                                               ctas_per_sm))) {
      return std::nullopt;
    }
    return attention_miss_ratios(one(problem), one(variant), ctas_per_sm, profile,
                                 capacities_bytes);
  }
  std::vector<Problem> problems_of_model(const Json& config, const ModelWork& work) const override {
    return attention_problems_of_model(config, work);
  }
  std::unique_ptr<ExplainedVariant> explain(const ExplainRequest& request) const override {
    return explain_attention(request);
  }
  const OperationServing* serving() const override { return this; }
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm,
                                          const ServingTools& tools) const override {
    return make_ready_attention(one(problem), one(variant), ctas_per_sm, tools);
  }

  const OperationPackage* package() const override { return this; }
  const PackagePart& package_part() const override { return attention_package_part(); }
  std::string package_row(const PackagedKernel& kernel) const override {
    return attention_package_row(kernel);
  }
};

}  // namespace

const Operation& attention_operation() {
  static const AttentionOperation operation;
  return operation;
}

const Operation& AttentionProblem::operation() { return attention_operation(); }
const Operation& AttentionVariant::operation() { return attention_operation(); }

}  // namespace swr
