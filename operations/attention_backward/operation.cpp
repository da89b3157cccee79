// SPDX-License-Identifier: MIT
// Attention backward as an operation.
#include "core/typed_operation.h"
#include "driver/ready_launch.h"
#include "model/predictor.h"
#include "operations/attention/parts.h"
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "operations/workload.h"
#include <swr/attention_problem.h>

#include <algorithm>
#include <array>
#include <limits>

namespace swr {
namespace {

constexpr int kHopperArch = 90;
constexpr int kNoLastArch = std::numeric_limits<int>::max();
constexpr std::array kFamilySources{
    FamilySource{.family = Family::portable,
                 .file = "attention_backward/portable/attention_backward.cu",
                 .entry = kBackwardKeyPass,
                 .first_arch = 80,
                 .last_arch = kNoLastArch,
                 .first_waiting_arch = 90,
                 .arch_suffix = "",
                 .config_header = "selected_attention_backward_config.h",
                 .further_entries = kBackwardFurther},
    FamilySource{.family = Family::hopper,
                 .file = "attention_backward/hopper/attention_backward.cu",
                 .entry = kBackwardKeyPass,
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kHopperArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_attention_backward_config.h",
                 .further_entries = kBackwardFurther}};

const Advice& backward_advice() {
  static constexpr Advice advice{
      .more_ctas = "fewer keys per tile, or --parts, make more CTAs",
      .fuller_waves = "try --persistence persistent or fewer keys per tile",
      .fewer_passes = "more keys per tile need fewer passes over Q and dO",
      .fewer_misses = "try --order sawtooth with --persistence persistent, or rotated",
      .splits_option = "--parts"};
  return advice;
}

AttentionBackwardProblem backward_of(const AttentionProblem& forward) {
  return {.batch = forward.batch,
          .heads_q = forward.heads_q,
          .heads_kv = forward.heads_kv,
          .seq_q = forward.seq_q,
          .seq_kv = forward.seq_kv,
          .head_dim = forward.head_dim,
          .head_dim_v = forward.head_dim,
          .dtype = forward.dtype,
          .causal = forward.causal,
          .alignment_bytes = forward.alignment_bytes};
}

constexpr TypedParts<AttentionBackwardProblem, AttentionBackwardVariant> kParts{
    .text = to_string,
    .file_name = file_name_of,
    .description = description_of,
    .description_without_order = description_without_order_of,
    .near_kind = near_kind_of,
    .without_launch_choices = kernel_choices,
    .without_tile_order = in_usual_tile_order,
    .is_split = has_splits};

class AttentionBackwardOperation final
    : public TypedOperation<AttentionBackwardProblem, AttentionBackwardVariant>,
      public OperationModel,
      public OperationServing {
 public:
  AttentionBackwardOperation() : TypedOperation(kParts) {}

  std::string_view name() const override { return "attention_backward"; }
  std::string_view summary() const override { return "dQ, dK and dV of attention, from dO"; }
  std::string_view example() const override {
    return "--seq 4096 --heads 16 --head-dim 128 --causal --deterministic";
  }
  std::span<const ProblemField> fields() const override { return attention_backward_fields(); }
  std::span<const Axis> axes() const override { return attention_backward_axes(); }
  std::span<const ConstraintInfo> constraints() const override {
    return attention_backward_constraints();
  }
  std::span<const FamilySource> families() const override { return kFamilySources; }
  const Axis* order_axis() const override { return &axis_named(*this, "order"); }
  bool multiplies_matrices() const override { return true; }
  const Advice& advice() const override { return backward_advice(); }
  double exponential_count(const Problem& problem) const override {
    const auto& asked = one(problem);
    return visible_pairs(asked) * asked.batch * asked.heads_q;
  }
  /// The reference computes in fp64, of which many chips do a 64th as much.
  double longest_trial_s(const Problem& problem) const override {
    constexpr double kReferenceFlopPerS = 5e9;
    return Operation::longest_trial_s(problem) + swr::flop_count(one(problem)) / kReferenceFlopPerS;
  }
  /// The loading warpgroup of hopper tiles in turn keeps a few words of a step in local memory,
  /// which nobody waits for: the tiles are loaded a step ahead.
  int tolerated_spill_bytes(const Variant& variant) const override {
    constexpr int kBytes = 32;
    const auto& v = variant.as<AttentionBackwardVariant>();
    return v.family == Family::hopper && v.dq_sum == DqSum::ordered ? kBytes : 0;
  }

  std::vector<VariantColumn> columns(std::span<const VariantResult> results) const override {
    using V = AttentionBackwardVariant;
    std::vector<VariantColumn> all{
        column("dQ", false,
               [](const V& v) {
                 return v.form == BackwardForm::two_pass ? to_string(v.form) : to_string(v.dq_sum);
               }),
        column("tile", true, [](const V& v) { return tile_text_of(v); }),
        column("stages", true, [](const V& v) { return std::to_string(v.stages); }),
        column("order", false, [](const V& v) { return to_string(v.order); }),
        column("persistence", false, [](const V& v) { return to_string(v.persistence); }),
    };
    if (any_of(results, [](const V& v) { return v.family == Family::hopper; })) {
      all.insert(all.begin(),
                 column("family", false, [](const V& v) { return to_string(v.family); }));
    }
    if (any_of(results, [](const V& v) { return v.last_kv_first; })) {
      all.push_back(column("keys first", false,
                           [](const V& v) { return v.last_kv_first ? "last" : "first"; }));
    }
    if (any_of(results, [](const V& v) { return v.parts > 1; })) {
      all.push_back(column("parts", true, [](const V& v) { return std::to_string(v.parts); }));
    }
    if (any_of(results, [](const V& v) { return v.form == BackwardForm::two_pass; })) {
      all.push_back(column("tile of dQ", true, [](const V& v) {
        return v.form == BackwardForm::fused
                   ? std::string("-")
                   : std::to_string(v.query_tile_m) + "x" + std::to_string(v.query_tile_n) + "x" +
                         std::to_string(v.query_warps);
      }));
    }
    return all;
  }

  /// Those of forward, where the model is trained.
  std::vector<Problem> problems_of_model(const Json& config, const ModelWork& work) const override {
    std::vector<Problem> problems;
    if (!work.training) {
      return problems;
    }
    for (const Problem& problem : attention_problems_of_model(config, work)) {
      problems.emplace_back(backward_of(problem.as<AttentionProblem>()));
      problems.back().operation().validate(problems.back());
    }
    return problems;
  }
  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const override {
    return make_attention_backward_workload(one(problem), tools, seed);
  }
  const OperationModel* model() const override { return this; }
  std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const override {
    return make_attention_backward_predictor(profile);
  }
  const OperationServing* serving() const override { return this; }
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm,
                                          const ServingTools& tools) const override {
    return make_ready_attention_backward(one(problem), one(variant), ctas_per_sm, tools);
  }
};

}  // namespace

const Operation& attention_backward_operation() {
  static const AttentionBackwardOperation operation;
  return operation;
}

}  // namespace swr
