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

constexpr int kFirstFp8Arch = 89;

Reason architecture(const Candidate& c) {
  const bool has_fp8 = is_fp8(c.problem.dtype) || c.problem.output == OutputType::fp8;
  if (has_fp8 && c.device.sm_arch < kFirstFp8Arch) {
    return "FP8 begins with sm_89";
  }
  return lacks_instructions(c.variant.family, c.device);
}

/// A tile has one or two times `bytes` along k.
Reason line_bytes(const GemmVariant& v, int element_bytes, int bytes) {
  const int one = bytes / element_bytes;
  if (v.tile_k != one && v.tile_k != 2 * one) {
    return "tile_k " + text(v.tile_k) + " is not " + text(one) + " or " + text(2 * one);
  }
  return std::nullopt;
}

Reason hopper_tile(const GemmVariant& v, int element_bytes) {
  const int sharers = v.mainloop == GemmMainloop::pingpong ? 1 : v.consumers;
  if (v.tile_m % (64 * sharers) != 0) {
    return "tile_m " + text(v.tile_m) + " is not whole 64-row blocks for each of " + text(sharers) +
           " consumers";
  }
  if (v.tile_n % 8 != 0) {
    return "tile_n " + text(v.tile_n) + " is no multiple of 8";
  }
  return line_bytes(v, element_bytes, 128);
}

Reason tile_shape(const Candidate& c) {
  const GemmVariant& v = c.variant;
  if (c.is_hopper()) {
    return hopper_tile(v, element_bytes(c.problem.dtype));
  }
  if (v.tile_m % (16 * v.warps_m) != 0 || v.tile_n % (16 * v.warps_n) != 0) {
    return text(v.tile_m) + " x " + text(v.tile_n) + " does not give each of " + text(v.warps_m) +
           " x " + text(v.warps_n) + " warps whole blocks of 16 x 16";
  }
  return line_bytes(v, element_bytes(c.problem.dtype), 64);
}

/// Halves of a gated tile, and blocks of columns that share a scale.
Reason columns_of_c(const Candidate& c) {
  const GemmProblem& p = c.problem;
  const GemmVariant& v = c.variant;
  const int warps_n = c.is_hopper() ? 1 : v.warps_n;
  const int columns = v.tile_n / (p.gated ? 2 : 1) / warps_n;
  if (p.gated && columns * 2 * warps_n != v.tile_n) {
    return "the tile has no two equal halves for gate and product";
  }
  if (p.gated && columns % (c.is_hopper() ? 16 : 8) != 0) {
    return "half of " + text(v.tile_n / warps_n) + " columns is no whole number of blocks";
  }
  if (p.gated && p.scaling == Scaling::block && kScaleBlock % columns != 0) {
    return text(columns) + " columns of gate and product lie in several blocks of B's scales";
  }
  const int wanted = c.is_hopper() ? columns % kScaleBlock : columns - kScaleBlock;
  if (p.output_scaling == Scaling::block && wanted != 0) {
    return "C is scaled by 128 columns, and " + text(columns) + " are summed by the same threads";
  }
  if (c.is_hopper() && p.output == OutputType::fp8 && columns < 32) {
    return "a line of " + text(columns) + " bytes is too short for the copy engine";
  }
  return std::nullopt;
}

/// Tensor cores whose sums are those of fp32 need no second level.
bool sums_exactly(const Candidate& c) {
  return !c.is_hopper() && c.device.sm_arch != kFirstFp8Arch;
}

Reason promotion(const Candidate& c) {
  const GemmVariant& v = c.variant;
  const bool is_two_level = c.problem.accuracy == Accuracy::two_level;
  if (v.promote_every > 0 && !is_two_level) {
    return "accuracy fast promotes nothing";
  }
  if (v.promote_every == 0 && is_two_level &&
      (c.problem.scaling == Scaling::block || !sums_exactly(c))) {
    return "accuracy two_level promotes sums of 128 elements or a few times as many";
  }
  if (c.problem.scaling == Scaling::block &&
      (v.promote_every != kScaleBlock || v.tile_k != kScaleBlock)) {
    return "block scales belong to 128 elements of k: tile_k and promote_every 128";
  }
  if (v.promote_every % v.tile_k != 0 || v.promote_every / v.tile_k > v.stages) {
    return "promote_every " + text(v.promote_every) + " is not up to " + text(v.stages) +
           " whole k-blocks of " + text(v.tile_k);
  }
  return std::nullopt;
}

Reason consumers(const Candidate& c) {
  if (c.is_hopper() && c.variant.mainloop == GemmMainloop::pingpong && c.variant.consumers != 2) {
    return "ping-pong takes two consumers, not " + text(c.variant.consumers);
  }
  return std::nullopt;
}

/// Every CTA of a cluster loads as many lines of what they share; of a gated B one half.
bool loads_whole_lines(const HopperGemmConfig& config) {
  const int a_lines = config.a_along_k() ? config.tile_m : config.tile_k;
  const int b_lines = config.gated ? 2 : config.b_along_k() ? config.tile_n : config.tile_k;
  return a_lines % config.cluster_n == 0 && b_lines % config.cluster_m == 0;
}

Reason cluster(const Candidate& c) {
  const GemmVariant& v = c.variant;
  const bool is_single = v.cluster_m * v.cluster_n * v.cluster_k ==
                         max_of(max_of(v.cluster_m, v.cluster_n), v.cluster_k);
  if (!is_single) {
    return "a cluster extends along one of m, n and k";
  }
  if (c.is_hopper() && !loads_whole_lines(std::get<HopperGemmConfig>(c.config))) {
    return "the CTAs of a cluster do not load equal parts of a tile";
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

/// Of types of 16 bits, rows that TMA cannot take are copied and stored by warps.
Reason copy_alignment(const Candidate& c) {
  const GemmProblem& p = c.problem;
  const bool takes_odd_rows =
      !is_fp8(p.dtype) && p.output != OutputType::fp8 && p.groups == GemmGroups::none;
  if (!c.is_hopper() || takes_odd_rows) {
    return std::nullopt;
  }
  if (Reason reason = cannot_be_copied(p.alignment_bytes, "matrices")) {
    return reason;
  }
  if (std::get<HopperGemmConfig>(c.config).has_odd_rows()) {
    return "the copy engine writes whole 16 bytes, and a row of C has " +
           text(1LL * p.n * output_bytes(p.output));
  }
  return std::nullopt;
}

Reason shared_memory(const Candidate& c) {
  return exceeds_shared_memory(
      std::visit([](const auto& one) { return one.smem_bytes(); }, c.config), c.device);
}

/// Sums and operands a thread holds, and how many registers it may have.
std::pair<int, int> registers_of(const HopperGemmConfig& config) {
  // Whatever warpgroups trade, ptxas compiles a kernel of 512 threads for 128.
  const int traded = config.consumers == 3 ? 128 : config.consumer_registers();
  return {config.accumulator_registers(), config.trades_registers() ? traded : 255};
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

Reason groups(const Candidate& c) {
  const GemmVariant& v = c.variant;
  if (c.problem.groups == GemmGroups::none) {
    return std::nullopt;
  }
  if (v.persistence != Persistence::persistent || v.splits > 1 || v.cluster_k > 1) {
    return "how many tiles there are is known on the device: persistent CTAs walk them, and none "
           "is "
           "split along k";
  }
  if (c.problem.groups == GemmGroups::contiguous &&
      kContiguousRows % (v.tile_m * v.cluster_m) != 0) {
    return text(v.tile_m * v.cluster_m) + " rows of a cluster do not divide a run of " +
           text(kContiguousRows);
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
    Rule{{"columns_of_c", "Threads hold both halves of a gated tile, and blocks that are scaled."},
         columns_of_c},
    Rule{{"promotion", "FP8 is summed as exactly as asked."}, promotion},
    Rule{{"consumers", "Ping-pong alternates between two consumers."}, consumers},
    Rule{{"cluster", "A cluster shares one operand, or one tile of C."}, cluster},
    Rule{{"family_axes", "Axes of other families keep their default."}, family_axes},
    Rule{{"threads", "A CTA has at most 1024 threads."}, threads},
    Rule{
        {"copy_alignment", "TMA moves whole 16 bytes; of FP8 and groups no other rows are copied."},
        copy_alignment},
    Rule{{"shared_memory", "The stages fit the opt-in limit."}, shared_memory},
    Rule{{"registers", "Sums and operands fit the register file."}, registers},
    Rule{{"persistence", "Persistence is grid or persistent."}, persistence},
    Rule{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Rule{{"local_iterations", "Sawtooth needs a CTA with several tiles."}, local_iterations},
    Rule{{"splits", "Every split has a k-block."}, splits},
    Rule{{"groups", "Rows that are shared out on the device take persistent kernels."}, groups},
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
  variant.persistence =
      problem.groups == GemmGroups::none ? Persistence::grid : Persistence::persistent;
  // The larger of these that fits; the second fits every chip.
  const bool by_blocks =
      problem.scaling == Scaling::block || problem.output_scaling == Scaling::block;
  for (const auto& [tile_m, tile_n, warps, stages] :
       {std::array{128, 128, 2, 3}, std::array{64, 64, 2, 2}, std::array{64, 128, 4, 2}}) {
    const bool one_column = tile_n > tile_m;
    variant.tile_m = tile_m;
    variant.tile_n = tile_n;
    variant.tile_k =
        by_blocks && is_fp8(problem.dtype) ? kScaleBlock : 64 / element_bytes(problem.dtype);
    variant.warps_m = warps;
    variant.warps_n = one_column ? 1 : warps;
    variant.stages = stages;
    variant.promote_every = problem.accuracy == Accuracy::two_level ? kScaleBlock : 0;
    if (!broken_constraint(problem, variant, device)) {
      break;
    }
  }
  return variant;
}

}  // namespace swr
