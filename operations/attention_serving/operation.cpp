// SPDX-License-Identifier: MIT
// Attention over sequences of unequal length as an operation.
#include "core/architectures.h"
#include "core/typed_operation.h"
#include "model/predictor.h"
#include "operations/attention_serving/parts.h"
#include "operations/workload.h"

#include <array>
#include <limits>

namespace swr {
namespace {

constexpr int kNoArch = std::numeric_limits<int>::max();
constexpr std::array kSources{
    FamilySource{.family = Family::portable,
                 .file = "attention_serving/portable/serving_attention.cu",
                 .entry = "swr_serving_attention",
                 .first_arch = 80,
                 .last_arch = kNoArch,
                 .first_waiting_arch = 90,
                 .arch_suffix = "",
                 .config_header = "selected_serving_attention_config.h"},
    FamilySource{.family = Family::hopper,
                 .file = "attention_serving/hopper/serving_attention.cu",
                 .entry = "swr_serving_attention",
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kHopperArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_serving_config.h"},
};

constexpr TypedParts<ServingAttentionProblem, ServingAttentionVariant> kParts{
    .text = to_string,
    .file_name = file_name_of,
    .without_launch_choices = kernel_choices,
    .without_tile_order = in_usual_tile_order};

class ServingAttentionOperation final
    : public TypedOperation<ServingAttentionProblem, ServingAttentionVariant>,
      public OperationModel,
      public OperationServing {
 public:
  ServingAttentionOperation() : TypedOperation(kParts) {}

  /// Lengths scatter, and parts of rows cost: a step beyond the longest is as far as anybody looked
  /// (docs/serving.md).
  double octaves_beyond_hull() const override { return 1.0; }

  std::string_view name() const override { return "attention_serving"; }
  std::string_view summary() const override { return "attention over unequal sequences, in pages"; }
  std::string_view example() const override { return "--seq 1 --seq-kv 8192 --batch 8"; }
  std::span<const ProblemField> fields() const override { return serving_attention_fields(); }
  std::span<const Axis> axes() const override { return serving_attention_axes(); }
  std::span<const ConstraintInfo> constraints() const override {
    return serving_attention_constraints();
  }
  std::span<const FamilySource> families() const override { return kSources; }
  const Axis* order_axis() const override { return &axis_named(*this, "order"); }
  bool multiplies_matrices() const override { return true; }
  double exponential_count(const Problem& problem) const override {
    const auto& asked = one(problem);
    return flop_count(problem) / (2.0 * (asked.head_dim + asked.head_dim_v));
  }

  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const override {
    return make_serving_attention_workload(one(problem), tools, seed);
  }
  const OperationModel* model() const override { return this; }
  std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const override {
    return make_serving_attention_predictor(profile);
  }
  const OperationServing* serving() const override { return this; }
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm,
                                          const ServingTools& tools) const override {
    return make_ready_serving_attention(one(problem), one(variant), ctas_per_sm, tools);
  }
};

}  // namespace

const Operation& serving_attention_operation() {
  static const ServingAttentionOperation operation;
  return operation;
}

}  // namespace swr
