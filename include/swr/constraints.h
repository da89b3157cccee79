// SPDX-License-Identifier: MIT
// The rules a variant must obey, each with a name and a reason. Pure arithmetic: no compiler, no
// GPU, so the search space, the database's nearest match and the command line share them.
#pragma once

#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// A variant that cannot run, and the constraint that says so.
struct DroppedVariant {
  Variant variant;
  std::string constraint;  ///< Name of the constraint, e.g. "shared_memory".
  std::string reason;      ///< One sentence with the numbers.
};

/// Name and purpose of a constraint, for --help and the documentation.
struct ConstraintInfo {
  std::string_view name;
  std::string_view summary;
};
std::span<const ConstraintInfo> constraints(const Operation& operation);

/// The first constraint the variant violates before compilation, if any.
/// Throws, as the following: Error{invalid_argument} when problem and variant are of different
/// operations.
std::optional<DroppedVariant> check_constraints(const Problem& problem, const Variant& variant,
                                                const DeviceInfo& device);

/// Constraints that need the compiler's verdict: spills, and registers that leave no CTA resident.
std::optional<DroppedVariant> check_compiled(const Problem& problem, const Variant& variant,
                                             const DeviceInfo& device,
                                             const KernelResources& resources);

/// The variant used when nothing is known about a device: legal wherever the family runs.
Variant default_variant(const Problem& problem, const DeviceInfo& device);

}  // namespace swr
