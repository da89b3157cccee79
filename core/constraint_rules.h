// SPDX-License-Identifier: MIT
// What the rules of every operation have in common: their form, and those that read the same.
#pragma once

#include "core/architectures.h"
#include "core/operation.h"
#include "templates/common/cta_schedule.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace swr {

/// Why a rule is broken; empty when it holds.
using Reason = std::optional<std::string>;

inline std::string text(long long value) { return std::to_string(value); }

/// For rules of one condition.
inline Reason unless(bool holds, std::string reason) {
  return holds ? Reason{} : Reason(std::move(reason));
}

/// A rule over what an operation calls a candidate.
template <typename Candidate>
struct Constraint {
  ConstraintInfo info;
  Reason (*violation)(const Candidate&);
};

template <typename Candidate, std::size_t Count>
std::optional<BrokenConstraint> first_broken(
    const std::array<Constraint<Candidate>, Count>& constraints, const Candidate& candidate) {
  for (const Constraint<Candidate>& constraint : constraints) {
    if (Reason reason = constraint.violation(candidate)) {
      return BrokenConstraint{constraint.info, std::move(*reason)};
    }
  }
  return std::nullopt;
}

// Rules that need the compiler's verdict; constraints.cpp checks them for every operation.
inline constexpr ConstraintInfo kSpills{
    "spills", "The compiler spilled no more registers than the operation bears."};
inline constexpr ConstraintInfo kSerialized{"serialized_wgmma",
                                            "The compiler kept wgmma and setmaxnreg asynchronous."};
inline constexpr ConstraintInfo kResidency{"residency", "At least one CTA fits an SM."};

/// The rules before compilation, then those after it.
template <typename Candidate, std::size_t Count>
constexpr std::array<ConstraintInfo, Count + 3> all_infos(
    const std::array<Constraint<Candidate>, Count>& before_compilation) {
  std::array<ConstraintInfo, Count + 3> infos{};
  for (std::size_t i = 0; i < Count; ++i) {
    infos[i] = before_compilation[i].info;
  }
  infos[Count] = kSpills;
  infos[Count + 1] = kSerialized;
  infos[Count + 2] = kResidency;
  return infos;
}

inline Reason lacks_instructions(Family family, const DeviceInfo& device) {
  constexpr int kFirstArch = 80;
  if (family == Family::hopper && device.sm_arch != kHopperArch) {
    return "sm_" + text(device.sm_arch) + " lacks wgmma; only sm_90 has it";
  }
  if (device.sm_arch < kFirstArch) {
    return "sm_" + text(device.sm_arch) + " lacks cp.async and bf16 mma.sync; sm_80 is the first";
  }
  return std::nullopt;
}

/// Axes of other families at anything but their default would only repeat variants.
template <typename OneVariant>
Reason sets_axes_of_other_families(const OneVariant& variant) {
  const OneVariant defaults;
  if (variant.family == defaults.family && variant == defaults) {
    return std::nullopt;
  }
  for (const Axis& axis : OneVariant::operation().axes()) {
    if (!axis.belongs_to(variant.family) && axis.read(&variant) != axis.read(&defaults)) {
      return "family " + std::string(to_string(variant.family)) + " has no axis " +
             std::string(axis.name);
    }
  }
  return std::nullopt;
}

inline Reason exceeds_threads(int threads, const DeviceInfo& device) {
  const int limit = std::min(1024, device.max_threads_per_sm);
  return threads <= limit ? Reason{}
                          : text(threads) + " threads exceed the limit of " + text(limit);
}

inline Reason exceeds_shared_memory(int needed_bytes, const DeviceInfo& device) {
  return needed_bytes <= device.smem_per_cta_bytes
             ? Reason{}
             : text(needed_bytes) + " bytes exceed the " + text(device.smem_per_cta_bytes) +
                   " a CTA may use";
}

inline Reason misses_workers(int workers, Persistence persistence) {
  return workers == 0 || is_persistent(persistence)
             ? Reason{}
             : Reason("workers applies to persistent launches only");
}

/// `matrices` are what the copy engine moves, `alignment_bytes` what divides their addresses.
inline Reason cannot_be_copied(int alignment_bytes, const char* matrices) {
  constexpr int kTensorMapAlignmentBytes = 16;
  if (alignment_bytes < kTensorMapAlignmentBytes) {
    return std::string("the copy engine needs ") + matrices + " aligned to 16 bytes, not " +
           text(alignment_bytes);
  }
  return std::nullopt;
}

}  // namespace swr
