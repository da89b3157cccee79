// SPDX-License-Identifier: MIT
#include "core/constraint_rules.h"
#include "operations/attention/launch_plan.h"
#include "operations/attention_backward/parts.h"

#include <algorithm>
#include <array>
#include <variant>

namespace swr {
namespace {

/// What the predicates look at.
struct Candidate {
  const AttentionBackwardProblem& problem;
  const AttentionBackwardVariant& variant;
  const DeviceInfo& device;
  BackwardConfig config;

  /// Null of the other family.
  const AttentionBackwardConfig* portable() const {
    return std::get_if<AttentionBackwardConfig>(&config);
  }
  const HopperAttentionBackwardConfig* hopper() const {
    return std::get_if<HopperAttentionBackwardConfig>(&config);
  }
};

Reason architecture(const Candidate& c) { return lacks_instructions(c.variant.family, c.device); }

Reason form(const Candidate& c) {
  const bool sums = c.variant.dq_sum != DqSum::none;
  return unless(sums == (c.variant.form == BackwardForm::fused),
                sums ? "two_pass computes dQ apart, so dq_sum is none"
                     : "the pass of fused must sum up dQ: dq_sum atomic or ordered");
}

Reason deterministic(const Candidate& c) {
  return unless(!c.problem.deterministic || c.variant.dq_sum != DqSum::atomic,
                "atomic additions come in any order, and the problem is deterministic");
}

/// Axes of the pass over Q tiles keep their default where there is none.
Reason query_axes(const Candidate& c) {
  if (c.variant.form == BackwardForm::two_pass) {
    return unless(c.variant.query_order != Order::sawtooth ||
                      c.variant.query_persistence != Persistence::grid,
                  "one Q tile per CTA has a single iteration, so sawtooth equals cyclic");
  }
  AttentionBackwardVariant usual = c.variant;
  const AttentionBackwardVariant defaults;
  usual.query_tile_m = defaults.query_tile_m;
  usual.query_tile_n = defaults.query_tile_n;
  usual.query_warps = defaults.query_warps;
  usual.keys_at_once = defaults.keys_at_once;
  usual.query_stages = defaults.query_stages;
  usual.query_order = defaults.query_order;
  usual.query_persistence = defaults.query_persistence;
  return unless(usual == c.variant, "fused has no pass over Q tiles");
}

std::string tile(int m, int n, int warps) {
  return text(m) + "x" + text(n) + " with " + text(warps) + " warps";
}

/// The pass over K and V tiles of the portable family.
Reason key_tile_shape(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  if (v.warps % v.column_groups != 0) {
    return text(v.column_groups) + " column groups do not divide " + text(v.warps) + " warps";
  }
  return unless(c.portable()->key.is_whole(),
                "tile " + tile(v.tile_m, v.tile_n, v.warps) + ", " + text(v.rows_at_once) +
                    " rows at once and " + text(v.column_groups) +
                    " column groups do not divide into blocks of 16 rows, keys and columns");
}

Reason hopper_tile_shape(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  return unless(c.hopper()->key.is_whole(),
                "tile " + tile(v.tile_m, v.tile_n, v.warps) + " at head_dim " +
                    text(c.problem.head_dim) +
                    " is not 64 rows, or 128 at head_dim up to 64, by 128 keys, or 64 at head_dim "
                    "above 128, with 8 warps");
}

Reason tile_shape(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  if (Reason reason = c.hopper() != nullptr ? hopper_tile_shape(c) : key_tile_shape(c)) {
    return reason;
  }
  const auto whole = [](const auto& config) {
    return !config.has_query_pass() || config.query.is_whole();
  };
  return unless(std::visit(whole, c.config),
                "the tile of the pass over Q tiles, " +
                    tile(v.query_tile_m, v.query_tile_n, v.query_warps) + " and " +
                    text(v.keys_at_once) +
                    " keys at once, does not divide into blocks of 16 rows and keys");
}

Reason threads(const Candidate& c) {
  return exceeds_threads(threads_of(c.problem, c.variant), c.device);
}

Reason alignment(const Candidate& c) {
  constexpr int kOfTheCopyEngine = 16;
  return unless(c.hopper() == nullptr || c.problem.alignment_bytes >= kOfTheCopyEngine,
                "the copy engine needs tensors and strides of multiples of 16 bytes, not " +
                    text(c.problem.alignment_bytes));
}

/// What only one family has.
Reason family_axes(const Candidate& c) {
  const AttentionBackwardVariant usual;
  const AttentionBackwardVariant& v = c.variant;
  if (c.portable() != nullptr) {
    return unless(v.stages <= 2, "portable kernels hold one step or two");
  }
  if (v.rows_at_once != usual.rows_at_once || v.column_groups != usual.column_groups ||
      v.wide_adds) {
    return "hopper takes all rows of a step at once, divides no columns and adds by the copy "
           "engine";
  }
  if (v.persistence == Persistence::dynamic) {
    return "hopper kernels do not draw their tiles";
  }
  if (v.dq_sum == DqSum::ordered && v.persistence != Persistence::grid) {
    return "hopper tiles that take turns are drawn one by one: persistence grid";
  }
  return unless(v.stages >= 2, "hopper holds two Q tiles or three");
}

Reason wide_adds(const Candidate& c) {
  constexpr int kFirstArch = 90;
  if (!c.variant.wide_adds) {
    return std::nullopt;
  }
  if (c.device.sm_arch < kFirstArch) {
    return "sm_" + text(c.device.sm_arch) + " adds single values; sm_90 is the first with more";
  }
  return unless(c.variant.dq_sum == DqSum::atomic, "only atomic sums are added in memory");
}

/// Tiles that rotate and wait for one another hang unless all of them run, which nobody can promise
/// beside other launches.
Reason turns(const Candidate& c) {
  return unless(c.variant.dq_sum != DqSum::ordered || c.variant.order != QOrder::rotated,
                "rotated tiles wait for each other in a circle and would hang beside a launch that "
                "keeps some of them out");
}

Reason local_walks(const Candidate& c) {
  const bool one_walk =
      c.variant.persistence == Persistence::grid && c.problem.heads_q == c.problem.heads_kv;
  return unless(
      c.variant.order != QOrder::sawtooth || !one_walk,
      "one tile per CTA and one query head make a single walk, so sawtooth equals cyclic");
}

Reason worker_count(const Candidate& c) {
  return misses_workers(c.variant.workers, c.variant.persistence);
}

int kv_heads(const Candidate& c) { return c.problem.batch * c.problem.heads_kv; }

Reason sections(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  return unless(is_distinct_mapping(v.swizzle, v.section_heads, kv_heads(c)),
                v.section_heads != 0
                    ? "sections of " + text(v.section_heads) + " of " + text(kv_heads(c)) +
                          " heads equal another swizzle, or none is asked for"
                    : "without sections of several heads the swizzle equals q_fastest");
}

Reason bands(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  const int kv_tiles = ceil_div(c.problem.seq_kv, v.tile_n);
  if (v.bands > kv_tiles) {
    return text(v.bands) + " bands exceed the " + text(kv_tiles) + " K and V tiles of a head";
  }
  return unless(v.bands == 1 || kv_heads(c) > 1 || v.last_kv_first,
                "bands of one head, dealt from the first tile to the last, equal none");
}

Reason parts(const Candidate& c) {
  const AttentionBackwardVariant& v = c.variant;
  if (v.parts == 1) {
    return std::nullopt;
  }
  const int steps = walk_steps(c.problem, v);
  if (v.parts > steps) {
    return text(v.parts) + " parts exceed the " + text(steps) + " steps of a walk";
  }
  const long long bytes = part_bytes(c.problem, v.parts);
  return unless(bytes <= kMostPartBytes, "the sums of " + text(v.parts) + " parts take " +
                                             text(bytes >> 20) + " MiB of the " +
                                             text(kMostPartBytes >> 20) + " allowed");
}

Reason shared_memory(const Candidate& c) {
  return exceeds_shared_memory(smem_bytes_of(c.problem, c.variant), c.device);
}

Reason registers(const Candidate& c) {
  constexpr int kOperands = 40;  ///< And addresses, at the least.
  constexpr int kMost = 255;
  constexpr int kOfAnSm = 65536;
  const auto lacks = [&](int held, int threads) {
    const int limit = std::min(kMost, kOfAnSm / threads);
    return unless(held + kOperands <= limit, "scores and gradients alone need about " +
                                                 text(held + kOperands) +
                                                 " registers per thread of " + text(limit));
  };
  const auto query_lacks = [&](const auto& config) {
    return config.has_query_pass() ? lacks(config.query.peak_registers(), config.query.threads())
                                   : Reason{};
  };
  if (c.hopper() != nullptr) {
    const HopperKeyPassConfig& key = c.hopper()->key;
    constexpr int kAddresses = 8;  ///< At the least; head_dim 64 has no more and does not spill.
    const int needed = key.peak_registers() + kAddresses;
    return needed <= key.consumer_registers()
               ? query_lacks(*c.hopper())
               : Reason("scores and gradients alone need about " + text(needed) +
                        " registers per thread of " + text(key.consumer_registers()));
  }
  const AttentionBackwardConfig& config = *c.portable();
  if (Reason reason = lacks(config.key.peak_registers(), config.key.threads())) {
    return reason;
  }
  return query_lacks(config);
}

using Rule = Constraint<Candidate>;

constexpr std::array kRules{
    Rule{{"architecture", "The family's instructions exist on the chip."}, architecture},
    Rule{{"alignment", "The copy engine reaches every row."}, alignment},
    Rule{{"family_axes", "Axes of one family keep their default in the other."}, family_axes},
    Rule{{"form", "Two passes do not sum dQ, and one does."}, form},
    Rule{{"deterministic", "Sums of deterministic problems have an order."}, deterministic},
    Rule{{"query_axes", "Axes of the pass over Q tiles belong to two_pass."}, query_axes},
    Rule{{"tile_shape", "Warps own whole blocks of 16 rows, keys and columns."}, tile_shape},
    Rule{{"threads", "A CTA has at most 1024 threads."}, threads},
    Rule{{"wide_adds", "Adding four values at once needs sm_90 and atomic sums."}, wide_adds},
    Rule{{"turns", "Tiles that wait for each other never wait in a circle."}, turns},
    Rule{{"local_walks", "Sawtooth needs a CTA with several walks."}, local_walks},
    Rule{{"worker_count", "A worker count belongs to persistent launches."}, worker_count},
    Rule{{"sections", "Head sections differ from the other swizzles."}, sections},
    Rule{{"bands", "Every band has a tile and differs from a plain deal."}, bands},
    Rule{{"parts", "Every part has a step; sums of parts fit 1 GiB."}, parts},
    Rule{{"shared_memory", "Tiles fit the opt-in limit."}, shared_memory},
    Rule{{"registers", "Scores and gradients fit the register file."}, registers},
};

constexpr auto kInfos = all_infos(kRules);

}  // namespace

std::span<const ConstraintInfo> attention_backward_constraints() { return kInfos; }

std::optional<BrokenConstraint> broken_constraint(const AttentionBackwardProblem& problem,
                                                  const AttentionBackwardVariant& variant,
                                                  const DeviceInfo& device) {
  return first_broken(kRules, Candidate{problem, variant, device, config_of(problem, variant)});
}

}  // namespace swr
