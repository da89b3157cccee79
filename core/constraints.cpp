// SPDX-License-Identifier: MIT
#include "core/attention_config.h"
#include "core/launch_plan.h"
#include "templates/common/schedule.h"
#include <swr/constraints.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

using Reason = std::optional<std::string>;

std::string text(long long value) { return std::to_string(value); }

/// What the predicates look at.
struct Candidate {
  const AttentionProblem& problem;
  const Variant& variant;
  const DeviceInfo& device;
  AttentionConfig config;
};

Reason tile_shape(const Candidate& c) {
  if (c.variant.tile_m % (16 * c.variant.warps) != 0) {
    return "tile_m " + text(c.variant.tile_m) + " is no multiple of 16 rows times " +
           text(c.variant.warps) + " warps";
  }
  if (c.variant.tile_n % 16 != 0) {
    return "tile_n " + text(c.variant.tile_n) + " is no multiple of 16";
  }
  return std::nullopt;
}

Reason threads(const Candidate& c) {
  const int limit = std::min(1024, c.device.max_threads_per_sm);
  if (c.config.threads() > limit) {
    return text(c.config.threads()) + " threads exceed the limit of " + text(limit);
  }
  return std::nullopt;
}

Reason shared_memory(const Candidate& c) {
  if (c.config.smem_bytes() > c.device.smem_per_cta_bytes) {
    return text(c.config.smem_bytes()) + " bytes exceed the " + text(c.device.smem_per_cta_bytes) +
           " a CTA may use";
  }
  return std::nullopt;
}

Reason registers(const Candidate& c) {
  constexpr int kOperandRegisters = 30;
  const int needed = c.config.accumulator_registers() + kOperandRegisters;
  if (needed > c.config.register_limit()) {
    return "scores and output alone need about " + text(needed) + " registers per thread of " +
           text(c.config.register_limit());
  }
  return std::nullopt;
}

Reason local_iterations(const Candidate& c) {
  if (c.variant.order == Order::sawtooth && c.variant.persistence == Persistence::grid) {
    return "one Q tile per CTA has a single iteration, so sawtooth equals cyclic";
  }
  return std::nullopt;
}

Reason worker_count(const Candidate& c) {
  if (c.variant.workers != 0 && c.variant.persistence != Persistence::persistent) {
    return "workers applies to persistent launches only";
  }
  return std::nullopt;
}

Reason sections(const Candidate& c) {
  const bool sectioned = c.variant.swizzle == Swizzle::head_sections;
  const int heads = c.problem.batch * c.problem.heads_q;
  if (is_distinct_mapping(c.variant.swizzle, c.variant.section_heads, heads)) {
    return std::nullopt;
  }
  if (sectioned != (c.variant.section_heads != 0)) {
    return "section_heads belongs to head_sections and to it alone";
  }
  if (sectioned) {
    return "sections of " + text(c.variant.section_heads) + " of " + text(heads) +
           " heads equal another swizzle";
  }
  return "with one head, head_fastest equals q_fastest";
}

Reason architecture(const Candidate& c) {
  constexpr int kFirstArch = 80;
  if (c.device.sm_arch < kFirstArch) {
    return "sm_" + text(c.device.sm_arch) + " lacks cp.async and bf16 mma.sync; sm_80 is the first";
  }
  return std::nullopt;
}

struct Constraint {
  ConstraintInfo info;
  Reason (*violation)(const Candidate&);
};

constexpr std::array kBeforeCompilation{
    Constraint{{"architecture", "The family's instructions exist on the chip."}, architecture},
    Constraint{{"tile_shape", "Every warp owns whole 16-row blocks; keys come in 16s."},
               tile_shape},
    Constraint{{"threads", "A CTA has at most 1024 threads."}, threads},
    Constraint{{"shared_memory", "Q tile and K, V stages fit the opt-in limit."}, shared_memory},
    Constraint{{"registers", "Scores and output fit the register file."}, registers},
    Constraint{{"local_iterations", "Sawtooth needs a CTA with several Q tiles."},
               local_iterations},
    Constraint{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Constraint{{"sections", "Head sections differ from the other swizzles."}, sections},
};

constexpr ConstraintInfo kSpills{"spills", "The compiler kept everything in registers."};
constexpr ConstraintInfo kResidency{"residency", "At least one CTA fits an SM."};

constexpr auto kInfos = [] {
  std::array<ConstraintInfo, kBeforeCompilation.size() + 2> infos{};
  for (std::size_t i = 0; i < kBeforeCompilation.size(); ++i) {
    infos[i] = kBeforeCompilation[i].info;
  }
  infos[kBeforeCompilation.size()] = kSpills;
  infos[kBeforeCompilation.size() + 1] = kResidency;
  return infos;
}();

DroppedVariant dropped(const Variant& variant, const ConstraintInfo& info, std::string reason) {
  return {variant, std::string(info.name), std::move(reason)};
}

}  // namespace

std::span<const ConstraintInfo> constraints() { return kInfos; }

std::optional<DroppedVariant> check_constraints(const AttentionProblem& problem,
                                                const Variant& variant, const DeviceInfo& device) {
  const Candidate candidate{problem, variant, device, make_attention_config(problem, variant)};
  for (const Constraint& constraint : kBeforeCompilation) {
    if (Reason reason = constraint.violation(candidate)) {
      return dropped(variant, constraint.info, std::move(*reason));
    }
  }
  return std::nullopt;
}

std::optional<DroppedVariant> check_compiled(const AttentionProblem& problem,
                                             const Variant& variant, const DeviceInfo& device,
                                             const KernelResources& resources) {
  if (resources.spill_store_bytes > 0 || resources.spill_load_bytes > 0) {
    return dropped(variant, kSpills,
                   text(resources.spill_store_bytes) + " bytes stored and " +
                       text(resources.spill_load_bytes) + " loaded per thread");
  }
  const Occupancy resident = occupancy(resources, problem, variant, device);
  if (resident.ctas_per_sm < 1) {
    return dropped(variant, kResidency, "no CTA fits an SM, limited by " + resident.limited_by);
  }
  return std::nullopt;
}

Variant default_variant(const AttentionProblem& problem, const DeviceInfo& device) {
  Variant variant;
  // The largest of these that fits; 16 x 16 with one stage fits every chip and head_dim.
  for (const auto& [tile_m, tile_n, warps, stages] :
       {std::array{64, 64, 4, 2}, std::array{64, 64, 4, 1}, std::array{64, 32, 4, 1},
        std::array{16, 16, 1, 1}}) {
    variant.tile_m = tile_m;
    variant.tile_n = tile_n;
    variant.warps = warps;
    variant.stages = stages;
    if (!check_constraints(problem, variant, device)) {
      break;
    }
  }
  return variant;
}

}  // namespace swr
