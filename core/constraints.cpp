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
  FamilyConfig config;
};

Reason hopper_tile_shape(const Variant& variant) {
  constexpr int kRowsPerWarpgroup = 64;
  const int warpgroups = variant.tile_m / kRowsPerWarpgroup;
  if (variant.tile_m % kRowsPerWarpgroup != 0 || warpgroups < 1 || warpgroups > 3) {
    return "tile_m " + text(variant.tile_m) + " is not 64 rows for each of one to three warpgroups";
  }
  if (variant.warps != 4 * warpgroups) {
    return text(variant.warps) + " warps do not compute " + text(variant.tile_m) +
           " rows at 16 each";
  }
  return std::nullopt;
}

Reason tile_shape(const Candidate& c) {
  if (c.variant.family == Family::hopper) {
    if (Reason reason = hopper_tile_shape(c.variant)) {
      return reason;
    }
  }
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
  const int threads = threads_per_cta(c.config);
  if (threads > limit) {
    return text(threads) + " threads exceed the limit of " + text(limit);
  }
  return std::nullopt;
}

Reason shared_memory(const Candidate& c) {
  const int needed = smem_bytes(c.config);
  if (needed > c.device.smem_per_cta_bytes) {
    return text(needed) + " bytes exceed the " + text(c.device.smem_per_cta_bytes) +
           " a CTA may use";
  }
  return std::nullopt;
}

/// Registers for operands and addresses, at the least.
constexpr int kOperandRegisters = 30;

int register_limit(const AttentionConfig& config) { return config.register_limit(); }
int register_limit(const HopperConfig& config) { return config.consumer_registers(); }

Reason registers(const Candidate& c) {
  return std::visit(
      [](const auto& config) -> Reason {
        const int needed = config.accumulator_registers() + kOperandRegisters;
        const int limit = register_limit(config);
        if (needed > limit) {
          return "scores and output alone need about " + text(needed) +
                 " registers per thread of " + text(limit);
        }
        return std::nullopt;
      },
      c.config);
}

/// One instruction of the Hopper family holds a whole product.
Reason product_registers(const Candidate& c) {
  // What ptxas wants beside the result: 138 in all for 112 (C7602 of CUDA 13.0).
  constexpr int kOperands = 26;
  const auto* const config = std::get_if<HopperConfig>(&c.config);
  if (config == nullptr || config->product_registers() + kOperands <= config->entry_registers()) {
    return std::nullopt;
  }
  return "a product of " + text(2 * config->product_registers()) + " columns needs " +
         text(config->product_registers() + kOperands) + " registers per thread, and a CTA of " +
         text(config->threads()) + " threads starts with " + text(config->entry_registers());
}

/// Kernels that can draw tiles from a counter.
Reason tile_counter(const Candidate& c) {
  if (c.variant.persistence == Persistence::dynamic && c.variant.family != Family::hopper) {
    return "family " + std::string(to_string(c.variant.family)) + " cannot draw tiles";
  }
  return std::nullopt;
}

Reason copy_alignment(const Candidate& c) {
  constexpr int kTensorMapAlignmentBytes = 16;
  if (c.variant.family == Family::hopper && c.problem.alignment_bytes < kTensorMapAlignmentBytes) {
    return "the copy engine needs tensors aligned to 16 bytes, not " +
           text(c.problem.alignment_bytes);
  }
  return std::nullopt;
}

/// Axes of other families at anything but their default would only repeat variants.
Reason family_axes(const Candidate& c) {
  const Variant defaults;
  for (const Axis& axis : axes()) {
    if (!axis.belongs_to(c.variant.family) && axis.get(c.variant) != axis.get(defaults)) {
      return "family " + std::string(to_string(c.variant.family)) + " has no axis " +
             std::string(axis.name);
    }
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
  if (c.variant.workers != 0 && !is_persistent(c.variant.persistence)) {
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
  constexpr int kHopperArch = 90;
  if (c.variant.family == Family::hopper && c.device.sm_arch != kHopperArch) {
    return "sm_" + text(c.device.sm_arch) + " lacks wgmma; only sm_90 has it";
  }
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
    Constraint{{"family_axes", "Axes of other families keep their default."}, family_axes},
    Constraint{{"tile_counter", "Drawing tiles dynamically needs a kernel that can."},
               tile_counter},
    Constraint{{"copy_alignment", "Tensor maps need 16-byte alignment."}, copy_alignment},
    Constraint{{"shared_memory", "Q tile and K, V stages fit the opt-in limit."}, shared_memory},
    Constraint{{"registers", "Scores and output fit the register file."}, registers},
    Constraint{{"product_registers", "One wgmma fits the registers of a CTA that starts."},
               product_registers},
    Constraint{{"local_iterations", "Sawtooth needs a CTA with several Q tiles."},
               local_iterations},
    Constraint{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Constraint{{"sections", "Head sections differ from the other swizzles."}, sections},
};

constexpr ConstraintInfo kSpills{"spills", "The compiler kept everything in registers."};
constexpr ConstraintInfo kSerialized{"serialized_wgmma",
                                     "The compiler kept wgmma and setmaxnreg asynchronous."};
constexpr ConstraintInfo kResidency{"residency", "At least one CTA fits an SM."};

constexpr auto kInfos = [] {
  std::array<ConstraintInfo, kBeforeCompilation.size() + 3> infos{};
  for (std::size_t i = 0; i < kBeforeCompilation.size(); ++i) {
    infos[i] = kBeforeCompilation[i].info;
  }
  infos[kBeforeCompilation.size()] = kSpills;
  infos[kBeforeCompilation.size() + 1] = kSerialized;
  infos[kBeforeCompilation.size() + 2] = kResidency;
  return infos;
}();

DroppedVariant dropped(const Variant& variant, const ConstraintInfo& info, std::string reason) {
  return {variant, std::string(info.name), std::move(reason)};
}

}  // namespace

std::span<const ConstraintInfo> constraints() { return kInfos; }

std::optional<DroppedVariant> check_constraints(const AttentionProblem& problem,
                                                const Variant& variant, const DeviceInfo& device) {
  const Candidate candidate{problem, variant, device, make_family_config(problem, variant)};
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
  if (resources.wgmma_warnings > 0) {
    return dropped(variant, kSerialized, "ptxas serialises its products or ignores setmaxnreg");
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
