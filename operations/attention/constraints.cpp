// SPDX-License-Identifier: MIT
#include "core/constraint_rules.h"
#include "operations/attention/config.h"
#include "operations/attention/launch_plan.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <array>

namespace swr {
namespace {

/// What the predicates look at.
struct Candidate {
  const AttentionProblem& problem;
  const AttentionVariant& variant;
  const DeviceInfo& device;
  AttentionFamilyConfig config;
};

Reason hopper_tile_shape(const AttentionVariant& variant) {
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

/// More warps than blocks of 16 rows: those of a block divide the keys of a tile.
Reason key_groups(const PortableAttentionConfig& config) {
  if (config.tile_m % 16 != 0 || 16 * config.warps % config.tile_m != 0) {
    return text(config.warps) + " warps do not divide into the blocks of 16 rows of tile_m " +
           text(config.tile_m);
  }
  if (config.tile_n % (16 * config.key_groups()) != 0) {
    return "tile_n " + text(config.tile_n) + " is no multiple of 16 keys times the " +
           text(config.key_groups()) + " warps that share a block of rows";
  }
  return std::nullopt;
}

Reason tile_shape(const Candidate& c) {
  if (c.variant.family == Family::hopper) {
    if (Reason reason = hopper_tile_shape(c.variant)) {
      return reason;
    }
  }
  const auto* const portable = std::get_if<PortableAttentionConfig>(&c.config);
  if (portable != nullptr && portable->tile_m < 16 * portable->warps) {
    return key_groups(*portable);
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

Reason threads(const Candidate& c) { return exceeds_threads(threads_per_cta(c.config), c.device); }

Reason shared_memory(const Candidate& c) {
  return exceeds_shared_memory(smem_bytes(c.config), c.device);
}

/// Registers for operands and addresses, at the least.
constexpr int kOperandRegisters = 30;

int register_limit(const PortableAttentionConfig& config) { return config.register_limit(); }
int register_limit(const HopperAttentionConfig& config) { return config.consumer_registers(); }

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
  const auto* const config = std::get_if<HopperAttentionConfig>(&c.config);
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
  const bool copies_boxes = c.variant.family == Family::hopper || c.variant.kv_copy == KvCopy::tma;
  return copies_boxes ? cannot_be_copied(c.problem.alignment_bytes, "tensors") : Reason{};
}

Reason family_axes(const Candidate& c) { return sets_axes_of_other_families(c.variant); }

Reason local_iterations(const Candidate& c) {
  if (c.variant.order == Order::sawtooth && c.variant.persistence == Persistence::grid) {
    return "one Q tile per CTA has a single iteration, so sawtooth equals cyclic";
  }
  return std::nullopt;
}

Reason worker_count(const Candidate& c) {
  return misses_workers(c.variant.workers, c.variant.persistence);
}

/// The heads that Q tiles belong to.
int scheduled_heads(const Candidate& c) {
  return c.problem.batch * (c.variant.pack_gqa ? c.problem.heads_kv : c.problem.heads_q);
}

Reason kv_splits(const Candidate& c) {
  const int splits = c.variant.kv_splits;
  if (splits == 1) {
    return std::nullopt;
  }
  const int kv_tiles = ceil_div(c.problem.seq_kv, c.variant.tile_n);
  if (splits > kv_tiles) {
    return text(splits) + " splits exceed the " + text(kv_tiles) + " tiles of K and V";
  }
  const int packed = c.variant.pack_gqa ? c.problem.heads_q / c.problem.heads_kv : 1;
  const WorkItems items{scheduled_heads(c), ceil_div(c.problem.seq_q * packed, c.variant.tile_m),
                        splits};
  const long long bytes = partials_bytes(items, c.variant.tile_m, c.problem.head_dim);
  return bytes <= kMostPartialsBytes
             ? Reason{}
             : "the results of " + text(splits) + " splits take " + text(bytes >> 20) +
                   " MiB of the " + text(kMostPartialsBytes >> 20) + " allowed";
}

Reason pack_gqa(const Candidate& c) {
  return c.variant.pack_gqa && c.problem.heads_q == c.problem.heads_kv
             ? Reason("every query head has K and V of its own, so there is nothing to pack")
             : Reason{};
}

Reason kv_copy(const Candidate& c) {
  constexpr int kFirstArch = 90;
  constexpr int kMostBoxRows = 256;
  if (c.variant.kv_copy != KvCopy::tma) {
    return std::nullopt;
  }
  if (c.device.sm_arch < kFirstArch) {
    return "sm_" + text(c.device.sm_arch) + " lacks the tensor copy engine; sm_90 is the first";
  }
  if (!c.variant.smem_swizzle) {
    return "the copy engine writes swizzled rows only";
  }
  return c.variant.tile_n > kMostBoxRows
             ? Reason("the copy engine brings 256 rows at most, not " + text(c.variant.tile_n))
             : Reason{};
}

Reason longest_first(const Candidate& c) {
  return c.variant.longest_first && !c.problem.causal
             ? Reason("without the causal mask all Q tiles are as long")
             : Reason{};
}

Reason sections(const Candidate& c) {
  const bool sectioned = c.variant.swizzle == AttentionSwizzle::head_sections;
  const int heads = scheduled_heads(c);
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

Reason architecture(const Candidate& c) { return lacks_instructions(c.variant.family, c.device); }

using Rule = Constraint<Candidate>;

constexpr std::array kBeforeCompilation{
    Rule{{"architecture", "The family's instructions exist on the chip."}, architecture},
    Rule{{"tile_shape", "Warps own whole blocks of 16 rows or share one; keys come in 16s."},
         tile_shape},
    Rule{{"threads", "A CTA has at most 1024 threads."}, threads},
    Rule{{"family_axes", "Axes of other families keep their default."}, family_axes},
    Rule{{"tile_counter", "Drawing tiles dynamically needs a kernel that can."}, tile_counter},
    Rule{{"copy_alignment", "Tensor maps need 16-byte alignment."}, copy_alignment},
    Rule{{"shared_memory", "Q tile and K, V stages fit the opt-in limit."}, shared_memory},
    Rule{{"registers", "Scores and output fit the register file."}, registers},
    Rule{{"product_registers", "One wgmma fits the registers of a CTA that starts."},
         product_registers},
    Rule{{"local_iterations", "Sawtooth needs a CTA with several Q tiles."}, local_iterations},
    Rule{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Rule{{"kv_splits", "Every split has a tile of K and V; results of splits fit 1 GiB."},
         kv_splits},
    Rule{{"pack_gqa", "Packed query heads share a K and V head."}, pack_gqa},
    Rule{{"kv_copy", "Tensor maps of K and V need sm_90, swizzled rows and few rows."}, kv_copy},
    Rule{{"longest_first", "Q tiles differ in length under the causal mask only."}, longest_first},
    Rule{{"sections", "Head sections differ from the other swizzles."}, sections},
};

constexpr auto kInfos = all_infos(kBeforeCompilation);

}  // namespace

std::span<const ConstraintInfo> attention_constraints() { return kInfos; }

std::optional<BrokenConstraint> broken_constraint(const AttentionProblem& problem,
                                                  const AttentionVariant& variant,
                                                  const DeviceInfo& device) {
  return first_broken(kBeforeCompilation,
                      Candidate{problem, variant, device, make_family_config(problem, variant)});
}

AttentionVariant default_variant(const AttentionProblem& problem, const DeviceInfo& device) {
  AttentionVariant variant;
  variant.longest_first = problem.causal;
  // The largest of these that fits; 16 x 16 with one stage fits every chip and head_dim.
  for (const auto& [tile_m, tile_n, warps, stages] :
       {std::array{64, 64, 4, 2}, std::array{64, 64, 4, 1}, std::array{64, 32, 4, 1},
        std::array{16, 16, 1, 1}}) {
    variant.tile_m = tile_m;
    variant.tile_n = tile_n;
    variant.warps = warps;
    variant.stages = stages;
    if (!broken_constraint(problem, variant, device)) {
      break;
    }
  }
  return variant;
}

}  // namespace swr
