// SPDX-License-Identifier: MIT
// GEMM as an operation.
#include "core/architectures.h"
#include "core/typed_operation.h"
#include "operations/gemm/parts.h"
#include "operations/gemm/workload.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <array>
#include <limits>

namespace swr {
namespace {

constexpr int kNoLastArch = std::numeric_limits<int>::max();

constexpr int kNeverWaits = std::numeric_limits<int>::max();

constexpr std::array kFamilySources{
    FamilySource{.family = Family::portable,
                 .file = "gemm/portable/gemm.cu",
                 .entry = "swr_gemm",
                 .first_arch = 80,
                 .last_arch = kNoLastArch,
                 .first_waiting_arch = kNeverWaits,
                 .arch_suffix = "",
                 .config_header = "selected_portable_gemm_config.h"},
    FamilySource{.family = Family::hopper,
                 .file = "gemm/hopper/gemm.cu",
                 .entry = "swr_gemm",
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kHopperArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_gemm_config.h",
                 .always_waited = true},
};

constexpr TypedParts<GemmProblem, GemmVariant> kParts{
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

class GemmOperation final : public TypedOperation<GemmProblem, GemmVariant>,
                            public OperationModel,
                            public OperationServing,
                            public OperationPackage {
 public:
  GemmOperation() : TypedOperation(kParts) {}

  std::string_view name() const override { return "gemm"; }
  std::string_view summary() const override { return "C = alpha A B + beta C"; }
  std::string_view example() const override { return "--m 1,4096 --n 4096 --k 14336 --dtype bf16"; }
  std::span<const ProblemField> fields() const override { return gemm_fields(); }
  std::span<const Axis> axes() const override { return gemm_axes(); }
  std::span<const ConstraintInfo> constraints() const override { return gemm_constraints(); }
  std::span<const FamilySource> families() const override { return kFamilySources; }
  const Axis* order_axis() const override { return &axis_named(*this, "k_order"); }
  bool multiplies_matrices() const override { return true; }
  const Advice& advice() const override { return gemm_advice(); }

  std::vector<VariantColumn> columns(std::span<const VariantResult> results) const override {
    using V = GemmVariant;
    std::vector<VariantColumn> all{
        column("tile", true, [](const V& v) { return tile_text_of(v); }),
        column("family", false, [](const V& v) { return to_string(v.family); }),
        column("form", false, [](const V& v) { return form_text(v); }),
        column("stages", true, [](const V& v) { return std::to_string(v.stages); }),
        column("persistence", false, [](const V& v) { return persistence_text(v); }),
        column("raster", false, [](const V& v) { return raster_text(v); }),
    };
    if (any_of(results, [](const V& v) { return v.splits > 1; })) {
      all.push_back(column("splits", true, [](const V& v) { return std::to_string(v.splits); }));
    }
    if (any_of(results, [](const V& v) { return v.promote_every > 0; })) {
      all.push_back(
          column("promote", true, [](const V& v) { return std::to_string(v.promote_every); }));
    }
    if (any_of(results, [](const V& v) { return v.k_order != Order::cyclic; })) {
      all.push_back(column("k order", false, [](const V& v) { return to_string(v.k_order); }));
    }
    return all;
  }

  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const override {
    return std::make_unique<GemmWorkload>(one(problem), tools.kernels<GemmReferenceKernels>(),
                                          tools.stream, tools.sm_count, seed);
  }
  const OperationModel* model() const override { return this; }
  std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const override {
    return make_gemm_predictor(profile);
  }
  std::vector<Problem> problems_of_model(const Json& config, const ModelWork& work) const override {
    return gemm_problems_of_model(config, work);
  }
  std::unique_ptr<ExplainedVariant> explain(const ExplainRequest& request) const override {
    return explain_gemm(request);
  }
  const OperationServing* serving() const override { return this; }
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm,
                                          const ServingTools& tools) const override {
    return make_ready_gemm(one(problem), one(variant), ctas_per_sm, tools);
  }

  const OperationPackage* package() const override { return this; }
  const PackagePart& package_part() const override { return gemm_package_part(); }
  std::string package_row(const PackagedKernel& kernel) const override {
    return gemm_package_row(kernel);
  }
};

}  // namespace

const Operation& gemm_operation() {
  static const GemmOperation operation;
  return operation;
}

const Operation& GemmProblem::operation() { return gemm_operation(); }
const Operation& GemmVariant::operation() { return gemm_operation(); }

}  // namespace swr
