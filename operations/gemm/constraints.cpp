// SPDX-License-Identifier: MIT
#include "core/constraint_rules.h"
#include "operations/gemm/config.h"
#include "operations/gemm/gemm_fit.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <array>
#include <utility>

namespace swr {
namespace {

/// What the predicates look at.
struct Candidate {
  const GemmProblem& problem;
  const GemmVariant& variant;
  const DeviceInfo& device;
  GemmFamilyConfig config;

  bool is_hopper() const { return variant.family == Family::hopper; }
  GemmSchedule schedule() const {
    return std::visit(
        [&](const auto& one) { return one.schedule(make_gemm_params(problem, variant)); }, config);
  }
};

Reason architecture(const Candidate& c) { return lacks_instructions(c.variant.family, c.device); }

Reason hopper_tile(const GemmVariant& v) {
  const int sharers = v.mainloop == GemmMainloop::pingpong ? 1 : v.consumers;
  if (v.tile_m % (64 * sharers) != 0) {
    return "tile_m " + text(v.tile_m) + " is not whole 64-row blocks for each of " + text(sharers) +
           " consumers";
  }
  if (v.tile_n % 16 != 0) {
    return "tile_n " + text(v.tile_n) + " is no multiple of 16";
  }
  if (v.tile_k != 64 && v.tile_k != 128) {
    return "tile_k " + text(v.tile_k) + " is not 64 or 128";
  }
  return std::nullopt;
}

Reason tile_shape(const Candidate& c) {
  const GemmVariant& v = c.variant;
  if (c.is_hopper()) {
    return hopper_tile(v);
  }
  if (v.tile_m % (16 * v.warps_m) != 0 || v.tile_n % (16 * v.warps_n) != 0) {
    return text(v.tile_m) + " x " + text(v.tile_n) + " does not give each of " + text(v.warps_m) +
           " x " + text(v.warps_n) + " warps whole blocks of 16 x 16";
  }
  if (v.tile_k != 32 && v.tile_k != 64) {
    return "tile_k " + text(v.tile_k) + " is not 32 or 64";
  }
  return std::nullopt;
}

Reason consumers(const Candidate& c) {
  if (c.is_hopper() && c.variant.mainloop == GemmMainloop::pingpong && c.variant.consumers != 2) {
    return "ping-pong takes two consumers, not " + text(c.variant.consumers);
  }
  return std::nullopt;
}

Reason cluster(const Candidate& c) {
  const GemmVariant& v = c.variant;
  const bool is_single = v.cluster_m * v.cluster_n * v.cluster_k ==
                         max_of(max_of(v.cluster_m, v.cluster_n), v.cluster_k);
  if (!is_single) {
    return "a cluster extends along one of m, n and k";
  }
  if (v.cluster_k > 1 &&
      (v.persistence != Persistence::grid || v.mainloop != GemmMainloop::cooperative)) {
    return "sums meet where the k-blocks lay, so a CTA of a cluster along k computes one tile with "
           "all consumers: grid and cooperative";
  }
  if (v.cluster_k > 1 && v.splits > 1) {
    return "a tile is summed in shared memory (cluster_k) or in global memory (splits), not both";
  }
  return std::nullopt;
}

Reason family_axes(const Candidate& c) { return sets_axes_of_other_families(c.variant); }

Reason threads(const Candidate& c) {
  return exceeds_threads(std::visit([](const auto& one) { return one.threads(); }, c.config),
                         c.device);
}

Reason copy_alignment(const Candidate& c) {
  if (c.variant.family == Family::hopper) {
    if (Reason reason = cannot_be_copied(c.problem.alignment_bytes, "matrices")) {
      return reason;
    }
  }
  const int element_bytes = output_bytes(c.problem.output);
  if (c.is_hopper() && !fills_copied_rows(c.problem.n, element_bytes)) {
    return "the copy engine writes whole 16 bytes, and a row of C has " +
           text(static_cast<long long>(c.problem.n) * element_bytes);
  }
  return std::nullopt;
}

Reason shared_memory(const Candidate& c) {
  return exceeds_shared_memory(
      std::visit([](const auto& one) { return one.smem_bytes(); }, c.config), c.device);
}

/// Sums and operands a thread holds, and how many registers it may have.
std::pair<int, int> registers_of(const HopperGemmConfig& config) {
  return {config.accumulator_registers(),
          config.trades_registers() ? config.consumer_registers() : 255};
}
std::pair<int, int> registers_of(const PortableGemmConfig& config) {
  const int fragments = 2 * (4 * config.m_blocks() + 2 * config.n_blocks());
  const int share = 65536 / config.threads() / 8 * 8;
  return {config.accumulator_registers() + fragments, min_of(share, 255)};
}

Reason registers(const Candidate& c) {
  constexpr int kAddressRegisters = 30;
  const auto [held, limit] =
      std::visit([](const auto& one) { return registers_of(one); }, c.config);
  if (held + kAddressRegisters > limit) {
    return "sums and operands alone need about " + text(held + kAddressRegisters) +
           " registers per thread of " + text(limit);
  }
  return std::nullopt;
}

Reason persistence(const Candidate& c) {
  if (c.variant.persistence != Persistence::grid &&
      c.variant.persistence != Persistence::persistent) {
    return "persistence of GEMM is grid or persistent";
  }
  return std::nullopt;
}

Reason worker_count(const Candidate& c) {
  return misses_workers(c.variant.workers, c.variant.persistence);
}

Reason local_iterations(const Candidate& c) {
  if (c.variant.k_order == Order::right_to_left) {
    return "k is walked cyclic or sawtooth";
  }
  if (c.variant.k_order == Order::sawtooth && c.variant.persistence == Persistence::grid) {
    return "one tile per CTA has a single iteration, so sawtooth equals cyclic";
  }
  return std::nullopt;
}

Reason splits(const Candidate& c) {
  const GemmSchedule schedule = c.schedule();
  if (!has_block_per_split(schedule)) {
    return text(schedule.splits * schedule.cluster_k) + " splits exceed the " +
           text(schedule.k_blocks()) + " k-blocks";
  }
  return std::nullopt;
}

/// Launch choices that give the same order as another variant.
Reason raster(const Candidate& c) {
  const GemmVariant& v = c.variant;
  const GemmSchedule schedule = c.schedule();
  if (is_banded(v.raster) != (v.raster_group > 1)) {
    return "raster_group belongs to grouped and serpentine, where 1 equals along_n";
  }
  if (!has_several_bands(schedule)) {
    return "a band of " + text(v.raster_group) + " rows holds all " + text(schedule.rows()) +
           " and equals along_m";
  }
  if (v.swizzle_stride != 0 && v.raster == Raster::along_m) {
    return "along_m takes columns in the same order with any stride";
  }
  if (!has_several_column_groups(schedule)) {
    return "a stride of " + text(v.swizzle_stride) + " holds all " + text(c.problem.n) +
           " columns and equals none";
  }
  return std::nullopt;
}

Reason work_items(const Candidate& c) {
  const GemmSchedule schedule = c.schedule();
  if (!has_small_indices(schedule)) {
    return text(schedule.work_items()) + " tiles and splits exceed 32 bits";
  }
  return std::nullopt;
}

using Rule = Constraint<Candidate>;

constexpr std::array kBeforeCompilation{
    Rule{{"architecture", "The family's instructions exist on the chip."}, architecture},
    Rule{{"tile_shape", "Every warp or warpgroup computes whole blocks."}, tile_shape},
    Rule{{"consumers", "Ping-pong alternates between two consumers."}, consumers},
    Rule{{"cluster", "A cluster shares one operand, or one tile of C."}, cluster},
    Rule{{"family_axes", "Axes of other families keep their default."}, family_axes},
    Rule{{"threads", "A CTA has at most 1024 threads."}, threads},
    Rule{{"copy_alignment", "TMA moves whole 16 bytes."}, copy_alignment},
    Rule{{"shared_memory", "The stages fit the opt-in limit."}, shared_memory},
    Rule{{"registers", "Sums and operands fit the register file."}, registers},
    Rule{{"persistence", "Persistence is grid or persistent."}, persistence},
    Rule{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Rule{{"local_iterations", "Sawtooth needs a CTA with several tiles."}, local_iterations},
    Rule{{"splits", "Every split has a k-block."}, splits},
    Rule{{"raster", "Orders of tiles differ from each other."}, raster},
    Rule{{"work_items", "Linear indices have 32 bits."}, work_items},
};

constexpr auto kInfos = all_infos(kBeforeCompilation);

}  // namespace

std::span<const ConstraintInfo> gemm_constraints() { return kInfos; }

std::optional<BrokenConstraint> broken_constraint(const GemmProblem& problem,
                                                  const GemmVariant& variant,
                                                  const DeviceInfo& device) {
  return first_broken(kBeforeCompilation,
                      Candidate{problem, variant, device, make_gemm_config(problem, variant)});
}

GemmVariant default_variant(const GemmProblem& problem, const DeviceInfo& device) {
  GemmVariant variant;
  // The larger of these that fits; the second fits every chip.
  for (const auto& [tile, tile_k, warps, stages] :
       {std::array{128, 32, 2, 3}, std::array{64, 32, 2, 2}}) {
    variant.tile_m = tile;
    variant.tile_n = tile;
    variant.tile_k = tile_k;
    variant.warps_m = warps;
    variant.warps_n = warps;
    variant.stages = stages;
    if (!broken_constraint(problem, variant, device)) {
      break;
    }
  }
  return variant;
}

}  // namespace swr
