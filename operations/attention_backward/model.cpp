// SPDX-License-Identifier: MIT
// A model of one call from floors: matrix products, shared memory, L2 and DRAM of every kernel, the
// steps that CTAs wait for each other, and the unevenness of what is dealt. One share, by which the
// kernels stay above their floors, is measured (experiments/attention_backward); the rest is
// counted from the schedule.
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "model/streaming_predictor.h"
#include "operations/attention/model/hopper_time.h"
#include "operations/attention_backward/parts.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace swr {
namespace {

/// Of a floor's rate, what the kernels reach: 229 and 211 TFLOP/s of 301 and 301 calculated at
/// head_dim 128 and 256 on an H200.
constexpr double kReached = 0.75;
/// The same where several warps share keys and meet once more a step: 311 of 475 at head_dim 128,
/// 252 of 404 at 256 on an H100.
constexpr double kSharedReached = 0.64;
/// The same of the hopper family, whose step is taken as the sum of its parts: 563 of 632 TFLOP/s
/// calculated at head_dim 128 without a mask.
constexpr double kHopperReached = 0.89;
/// Bytes of dQ that all SMs add to L2 per second, in 1e9, over kHopperReached: from 422 TFLOP/s at
/// head_dim 256.
constexpr double kAddsGbPerS = 2970.0;
/// Instructions per score beside exp2, counted in templates/attention_backward/hopper/weights.cuh:
/// shift, difference, product, two halves of a conversion, a quarter of a load, half for the rest.
constexpr double kHopperInstructions = 5.0;
constexpr double kWgmmaDepth = 16.0;
/// Round trips to L2 of a turn: it is awaited, sums are read, added, written and handed over. From
/// 137 TFLOP/s of ordered sums beside 230 of atomic ones, without a mask.
constexpr double kTurnRoundTrips = 12.0;
/// The same of the hopper family: additions by the copy engine, their end, the word that says so.
/// A guess.
constexpr double kHandOverRoundTrips = 8.0;
constexpr double kWavefrontBytes = 128.0;
constexpr double kElementBytes = 2.0;
constexpr double kFloatBytes = 4.0;

/// Microseconds for an amount at a rate per second of 1e9.
double time_us(double amount, double giga_per_s) { return amount / giga_per_s / 1e3; }

long long sectors(double bytes) {
  return std::llround(std::ceil(bytes / static_cast<double>(kSectorBytes)));
}

/// What one pass does, over all its CTAs.
struct Pass {
  double matrix_clocks = 0.0;  ///< Of an SM.
  double sm_clocks = 0.0;      ///< Of its slowest unit, or of all that it does in turn.
  double exponentials = 0.0;
  double l2_bytes = 0.0;
  double added_bytes = 0.0;   ///< Of sums, by kernels that are fast enough to be held up by them.
  double reached = kReached;  ///< Share of the floors' rate.
  double uneven = 1.0;        ///< How much longer the busiest place works than all do on average.
};

/// Pairs of tiles of a head that have something to compute.
double tile_pairs(const AttentionBackwardProblem& problem, int tile_m, int tile_n) {
  const SequenceShape shape{problem.seq_q, problem.seq_kv, problem.causal};
  double pairs = 0.0;
  for (int tile = 0; tile < ceil_div(problem.seq_kv, tile_n); ++tile) {
    pairs += backward::q_tiles_of(tile, tile_m, tile_n, shape).count;
  }
  return pairs;
}

double uneven(double items, double longest_share, double places) {
  const double waves = items / places;
  return std::max({1.0, std::ceil(waves) / waves, longest_share * std::min(1.0, places / items)});
}

Pass step_cost(const KeyPassConfig& c, const GpuProfile& profile) {
  const double columns = c.head_dim + c.value_dim;
  const double products = 2 * c.head_dim + 2 * c.value_dim + (c.sums_dq() ? c.head_dim : 0);
  const double scores = 1.0 * c.tile_m * c.tile_n;
  const double sums = c.sums_dq() ? 2.0 * kFloatBytes * c.tile_m * c.head_dim : 0.0;
  const double matrix = 2.0 * scores * products / profile.matrix_flop_per_clock_per_sm;
  return {.matrix_clocks = matrix,
          .sm_clocks = std::max(matrix, key_step_smem_bytes(c) / kWavefrontBytes),
          .exponentials = scores,
          .l2_bytes = kElementBytes * c.tile_m * columns + sums,
          .reached = c.column_groups > 1 ? kSharedReached : kReached};
}

/// wgmma of all consumers, exponentials and what goes with them, and dQ on its way through shared
/// memory, one after the other. Sums go to L2 once: the copy engine adds there.
Pass step_cost(const HopperKeyPassConfig& c, const GpuProfile& profile) {
  const double scores = 1.0 * c.tile_m * c.tile_n;
  const bool shared = c.divides_columns();
  const double of_columns =
      (c.head_dim + c.value_dim) / kWgmmaDepth * wgmma_clocks(c.score_rows(), true);
  const double of_rows =
      c.tile_m / kWgmmaDepth *
      (wgmma_clocks(c.own_key_columns(), shared) + wgmma_clocks(c.own_value_columns(), shared));
  const double of_keys = c.sums_dq()
                             ? c.tile_n / kWgmmaDepth * wgmma_clocks(c.dq_product_columns(), true) *
                                   c.dq_consumers() / c.consumers()
                             : 0.0;
  const double sums = c.sums_dq() ? kFloatBytes * c.tile_m * c.key_columns() : 0.0;
  const double staged = c.stages_dq() ? 2.0 * sums / kWavefrontBytes : 0.0;
  const double matrix = c.consumers() * (of_columns + of_rows + of_keys);
  const double softmax = scores / profile.exp2_per_clock_per_sm +
                         scores * kHopperInstructions / profile.fma_per_clock_per_sm;
  return {.matrix_clocks = matrix,
          .sm_clocks = matrix + softmax + staged,
          .exponentials = scores,
          .l2_bytes = kElementBytes * c.tile_m * (c.head_dim + c.value_dim) + sums,
          .added_bytes = sums,
          .reached = kHopperReached};
}

Pass key_pass(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant,
              const GpuProfile& profile, double places) {
  Pass pass = std::visit([&](const auto& config) { return step_cost(config.key, profile); },
                         config_of(problem, variant));
  const double steps =
      tile_pairs(problem, variant.tile_m, variant.tile_n) * problem.batch * problem.heads_q;
  const double kv_tiles = ceil_div(problem.seq_kv, variant.tile_n);
  const double items = kv_tiles * problem.batch * problem.heads_kv * variant.parts;
  pass.matrix_clocks *= steps;
  pass.sm_clocks *= steps;
  pass.exponentials *= steps;
  pass.l2_bytes *= steps;
  pass.added_bytes *= steps;
  pass.uneven = uneven(items, problem.causal ? 2.0 : 1.0, places);
  if (problem.causal && variant.last_kv_first) {
    // The longest tiles of the last band, twice the mean over the bands, begin when others end.
    pass.uneven += places / items / variant.bands;
  }
  return pass;
}

Pass query_pass(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant,
                const GpuProfile& profile, double places) {
  const QueryPassConfig c =
      std::visit([](const auto& config) { return config.query; }, config_of(problem, variant));
  const double columns = c.head_dim + c.value_dim;
  const double steps = tile_pairs(problem, c.tile_m, c.tile_n) * problem.batch * problem.heads_q;
  const double scores = 1.0 * c.tile_m * c.tile_n;
  const double of_keys = c.warps * c.tile_n * (columns + c.head_dim) + c.tile_n * columns;
  const double of_rows = c.tile_m * columns * (1.0 * c.tile_n / c.keys_at_once);
  const double items = 1.0 * ceil_div(problem.seq_q, c.tile_m) * problem.batch * problem.heads_q;
  const double matrix =
      2.0 * scores * (columns + c.head_dim) / profile.matrix_flop_per_clock_per_sm;
  const double smem = kElementBytes * (of_keys + of_rows) / kWavefrontBytes;
  return {.matrix_clocks = matrix * steps,
          .sm_clocks = std::max(matrix, smem) * steps,
          .exponentials = scores * steps,
          .l2_bytes = kElementBytes * c.tile_n * columns * steps,
          .uneven = uneven(items, 1.0, places)};
}

/// Of Q, dO and sums of dQ of a query head: what the tiles of the head go through, half of it under
/// the mask.
double head_walk_bytes(const AttentionBackwardProblem& problem,
                       const AttentionBackwardVariant& variant) {
  const double sums = variant.dq_sum != DqSum::none ? 2.0 * kFloatBytes * problem.head_dim : 0.0;
  const double row = kElementBytes * (problem.head_dim + problem.head_dim_v) + sums;
  return row * problem.seq_q * (problem.causal ? 0.5 : 1.0);
}

/// Query heads over which the CTAs of a part spread.
int query_heads_apart(const AttentionBackwardProblem& problem,
                      const AttentionBackwardVariant& variant) {
  return problem.causal ? ceil_div(group_of(problem), variant.parts) : 1;
}

/// Bytes that come from memory again because L2 holds less than the CTAs that run together go
/// through: each round of tiles of a query head reads it again, tiles that have drifted apart each
/// on its own, and each band reads all heads.
double reread_bytes(const AttentionBackwardProblem& problem,
                    const AttentionBackwardVariant& variant, double places, double l2_bytes) {
  const double kv_tiles = ceil_div(problem.seq_kv, variant.tile_n);
  const double all = head_walk_bytes(problem, variant) * problem.batch * problem.heads_q;
  const double together = bytes_walked_together(problem, variant, places);
  const bool sawtooth = variant.order == QOrder::sawtooth;
  const double of_bands = (variant.bands - 1.0) * all * reread_miss_share(all, sawtooth, l2_bytes);
  if (query_heads_apart(problem, variant) > 1) {
    return of_bands + (kv_tiles - 1.0) * all * std::max(0.0, 1.0 - l2_bytes / together);
  }
  const double rounds = std::max(1.0, kv_tiles / places);
  return of_bands + (rounds - 1.0) * all * reread_miss_share(together, sawtooth, l2_bytes);
}

class AttentionBackwardPredictor final : public Predictor {
 public:
  explicit AttentionBackwardPredictor(const GpuProfile& profile) : profile_(profile) {}

  Prediction predict(const Problem& asked, const Variant& chosen,
                     const KernelResources& /*resources*/, int ctas_per_sm) override {
    const auto& problem = asked.as<AttentionBackwardProblem>();
    const auto& variant = chosen.as<AttentionBackwardVariant>();
    const double places = 1.0 * profile_.device.sm_count * std::max(1, ctas_per_sm);
    Prediction result;
    add_pass(result, key_pass(problem, variant, profile_, places));
    if (variant.form == BackwardForm::two_pass) {
      add_pass(result, query_pass(problem, variant, profile_, places));
    }
    const double around = bytes_around(problem, variant, ctas_per_sm);
    const CompulsoryBytes bytes = compulsory_bytes(problem);
    const auto compulsory = static_cast<double>(bytes.read + bytes.write);
    const double again =
        reread_bytes(problem, variant, places, static_cast<double>(profile_.l2_effective_bytes));
    const double dram = profile_.device.dram_gb_per_s * profile_.dram_efficiency;
    const double around_us = time_us(around, dram);
    result.dram_us = time_us(compulsory + again, dram) + around_us;
    const double waiting = turns_us(problem, variant, places);
    const double kernels = variant.parts > 1 || variant.dq_sum == DqSum::atomic ? 3.0 : 2.0;
    result.time_us = std::max(result.time_us, time_us(compulsory + again, dram)) + around_us +
                     waiting + kernels * profile_.kernel.launch_us;
    result.latency_us = waiting + kernels * profile_.kernel.launch_us;
    result.write_sectors = sectors(static_cast<double>(bytes.write) + around / 2.0);
    result.compulsory_misses = sectors(compulsory);
    result.excess_misses = sectors(again + around);
    return result;
  }

  KernelResources estimated_resources(const Problem& problem,
                                      const Variant& variant) const override {
    constexpr int kOthers = 100;
    constexpr int kMost = 255;
    const auto& chosen = variant.as<AttentionBackwardVariant>();
    if (chosen.family == Family::hopper) {
      constexpr int kAtEntry =
          168;  // 65536 registers for 384 threads; warpgroups trade them later.
      return {.registers_per_thread = kAtEntry};
    }
    const auto held = [](const auto& config) {
      return std::max(config.key.peak_registers(),
                      config.has_query_pass() ? config.query.peak_registers() : 0);
    };
    const int registers =
        std::visit(held, config_of(problem.as<AttentionBackwardProblem>(), chosen)) + kOthers;
    return {.registers_per_thread = std::min(kMost, registers)};
  }
  std::optional<double> floor_us(const Problem& /*problem*/,
                                 const Variant& /*variant*/) const override {
    return std::nullopt;
  }

 private:
  double giga_clocks() const { return profile_.device.sm_count * profile_.clock_mhz / 1e3; }

  void add_pass(Prediction& result, const Pass& pass) const {
    const double exp2 = time_us(pass.exponentials, profile_.exp2_per_clock_per_sm * giga_clocks());
    const double l2 = std::max(time_us(pass.l2_bytes, profile_.l2_gb_per_s),
                               time_us(pass.added_bytes, kAddsGbPerS));
    result.matrix_us += time_us(pass.matrix_clocks, giga_clocks());
    result.softmax_us += exp2;
    result.l2_us += l2;
    result.time_us +=
        std::max(time_us(pass.sm_clocks, giga_clocks()), l2) * pass.uneven / pass.reached;
    result.read_sectors += sectors(pass.l2_bytes);
  }

  /// By the kernels before and after, and what parts leave: O and dO are read, sums of dQ cleared,
  /// read and written.
  static double bytes_around(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& variant, int ctas_per_sm) {
    const LaunchGeometry geometry = geometry_of(problem, variant, 1, std::max(1, ctas_per_sm));
    const double rows = 1.0 * problem.batch * problem.heads_q * problem.seq_q;
    const double of_rows = 2.0 * kElementBytes * rows * problem.head_dim_v;
    const double passes = variant.dq_sum == DqSum::atomic ? 2.0 : 1.0;
    return of_rows + passes * static_cast<double>(geometry.partials_bytes);
  }

  /// DqSum::ordered: each step hands over, and tiles of a causal head that are dealt from the
  /// longest on start as far apart as they are long, so half of the places wait.
  double turns_us(const AttentionBackwardProblem& problem, const AttentionBackwardVariant& variant,
                  double places) const {
    if (variant.dq_sum != DqSum::ordered) {
      return 0.0;
    }
    const double steps = tile_pairs(problem, variant.tile_m, variant.tile_n) * problem.batch *
                         problem.heads_q / places;
    if (variant.family == Family::hopper) {
      return late_turns_us(problem, variant, places);
    }
    const double turn_us = kTurnRoundTrips * profile_.l2_latency_clocks / profile_.clock_mhz;
    const Pass pass = key_pass(problem, variant, profile_, places);
    const double computing = time_us(pass.sm_clocks, giga_clocks()) / pass.reached;
    const bool starts_late = problem.causal && !variant.last_kv_first;
    return steps * turn_us + (starts_late ? computing : 0.0);
  }

  /// dQ of a step waits while the next is computed, so only what a tile is late behind the one
  /// whose turn comes before adds up, over those of a band that run together. Under a causal mask,
  /// dealt from the last on, a tile comes to a Q tile as many steps later as a tile has.
  double late_turns_us(const AttentionBackwardProblem& problem,
                       const AttentionBackwardVariant& variant, double places) const {
    const double steps = tile_pairs(problem, variant.tile_m, variant.tile_n) * problem.batch *
                         problem.heads_q / places;
    const Pass pass = key_pass(problem, variant, profile_, places);
    const double step_us = time_us(pass.sm_clocks, giga_clocks()) / pass.reached / steps;
    const double ahead =
        problem.causal && variant.last_kv_first ? step_us * variant.tile_n / variant.tile_m : 0.0;
    const double hand_over_us =
        kHandOverRoundTrips * profile_.l2_latency_clocks / profile_.clock_mhz;
    const double kv_tiles = ceil_div(problem.seq_kv, variant.tile_n);
    return std::max(0.0, hand_over_us - ahead) * std::min(kv_tiles / variant.bands, places);
  }

  GpuProfile profile_;
};

}  // namespace

double bytes_walked_together(const AttentionBackwardProblem& problem,
                             const AttentionBackwardVariant& variant, double places) {
  const double kv_tiles = ceil_div(problem.seq_kv, variant.tile_n);
  const double heads = 1.0 * problem.batch * problem.heads_kv * variant.parts;
  return head_walk_bytes(problem, variant) * query_heads_apart(problem, variant) *
         std::clamp(places / kv_tiles, 1.0, heads);
}

double key_step_smem_bytes(const KeyPassConfig& c) {
  const double m = c.tile_m;
  const double n = c.tile_n;
  const double columns = c.head_dim + c.value_dim;
  const double of_rows = 2.0 * c.warps * m * columns / c.column_groups;
  const double of_keys = n * columns * (m / c.rows_at_once);
  double elements = of_rows + of_keys + m * columns;
  if (c.column_groups > 1) {
    elements += m * n * (2.0 + 2.0 * c.column_groups);
  } else if (c.stores_ds()) {
    elements += m * n;
  }
  if (c.sums_dq()) {
    const double rows = c.dq_row_warps();
    elements += m * n * c.warps / rows + n * c.head_dim * rows;
  }
  return kElementBytes * elements;
}

std::unique_ptr<Predictor> make_attention_backward_predictor(const GpuProfile& profile) {
  return std::make_unique<AttentionBackwardPredictor>(profile);
}

}  // namespace swr
