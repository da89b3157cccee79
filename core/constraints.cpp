// SPDX-License-Identifier: MIT
#include "core/constraint_rules.h"
#include <swr/constraints.h>

namespace swr {
namespace {

DroppedVariant dropped(const Variant& variant, const ConstraintInfo& info, std::string reason) {
  return {variant, std::string(info.name), std::move(reason)};
}

}  // namespace

std::span<const ConstraintInfo> constraints(const Operation& operation) {
  return operation.constraints();
}

void require_same_operation(const Problem& problem, const Variant& variant) {
  if (&problem.operation() != &variant.operation()) {
    throw Error(ErrorCode::invalid_argument, "a variant of " +
                                                 std::string(variant.operation().name()) +
                                                 " cannot compute " + to_string(problem));
  }
}

std::optional<DroppedVariant> check_constraints(const Problem& problem, const Variant& variant,
                                                const DeviceInfo& device) {
  require_same_operation(problem, variant);
  auto broken = problem.operation().broken_constraint(problem, variant, device);
  if (!broken) {
    return std::nullopt;
  }
  return dropped(variant, broken->constraint, std::move(broken->reason));
}

std::optional<DroppedVariant> check_compiled(const Problem& problem, const Variant& variant,
                                             const DeviceInfo& device,
                                             const KernelResources& resources) {
  const int spilled = resources.spill_store_bytes + resources.spill_load_bytes;
  if (spilled > problem.operation().tolerated_spill_bytes(variant)) {
    return dropped(variant, kSpills,
                   text(resources.spill_store_bytes) + " bytes stored and " +
                       text(resources.spill_load_bytes) + " loaded per thread");
  }
  if (resources.wgmma_warnings > 0) {
    return dropped(variant, kSerialized, "ptxas serialises its products or ignores setmaxnreg");
  }
  const Occupancy resident = occupancy(resources, problem, variant, device);
  if (resident.ctas_per_sm < 1) {
    return dropped(variant, kResidency, "no CTA fits an SM, limited by " + resident.limited_by);
  }
  return std::nullopt;
}

Variant default_variant(const Problem& problem, const DeviceInfo& device) {
  return problem.operation().default_variant(problem, device);
}

}  // namespace swr
