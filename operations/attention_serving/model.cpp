// SPDX-License-Identifier: MIT
// A roofline of one launch: memory, L2, matrix products and exponentials, the unevenness of what is
// dealt, and the chain of loads that every launch begins with. Not fitted to measurements.
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention/model/hopper_time.h"
#include "operations/attention/model/time.h"
#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

/// Microseconds for an amount at a rate per second of 1e9.
double time_us(double amount, double giga_per_s) { return amount / giga_per_s / 1e3; }

long long sectors(double bytes) {
  return std::llround(std::ceil(bytes / static_cast<double>(kSectorBytes)));
}

/// Q tiles with the K and V tiles that they stream, over a batch and all heads.
struct Tiles {
  double q_tiles = 0.0;
  double pairs = 0.0;
  double longest = 0.0;  ///< Of one Q tile.
};

Tiles tiles_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant) {
  const DrawnLengths lengths = draw_lengths(problem);
  const int packed = variant.pack_gqa ? problem.heads_q / problem.heads_kv : 1;
  const double heads = 1.0 * problem.heads_q / packed;
  Tiles tiles;
  for (std::size_t i = 0; i < lengths.keys.size(); ++i) {
    const double q_tiles = ceil_div(lengths.queries[i] * packed, variant.tile_m);
    if (q_tiles == 0.0) {
      continue;
    }
    const double keys = visible_pairs(problem, lengths.queries[i], lengths.keys[i]) /
                        std::max(1, lengths.queries[i]);
    const double steps = std::max(1.0, std::ceil(keys / variant.tile_n));
    tiles.q_tiles += heads * q_tiles;
    tiles.pairs += heads * q_tiles * steps;
    tiles.longest = std::max(
        tiles.longest,
        std::ceil(1.0 *
                  visible_keys(problem, std::min(lengths.queries[i], variant.tile_m / packed + 1),
                               lengths.keys[i]) /
                  variant.tile_n));
  }
  return tiles;
}

/// CTAs that share a Q tile of those dealt by index.
double parts_of_item(const ServingAttentionVariant& variant, const Tiles& tiles, double workers) {
  const double most = direct_parts(static_cast<int>(tiles.longest), variant.least_units);
  return std::clamp(std::floor(workers / std::max(1.0, tiles.q_tiles)), 1.0, most);
}

/// How much longer the busiest CTA works than all do on average.
double imbalance(const ServingAttentionVariant& variant, const Tiles& tiles, double workers) {
  const double share = std::max(tiles.pairs / workers, 1e-9);
  if (variant.deal == Deal::ranges) {
    return std::max(1.0, std::max(std::ceil(share), 1.0 * variant.least_units) / share);
  }
  const double parts = variant.deal == Deal::direct ? parts_of_item(variant, tiles, workers) : 1.0;
  const double waves = tiles.q_tiles * parts / workers;
  return std::max(
      {1.0, std::ceil(waves) / std::max(waves, 1e-9), std::ceil(tiles.longest / parts) / share});
}

class ServingAttentionPredictor final : public Predictor {
 public:
  explicit ServingAttentionPredictor(const GpuProfile& profile) : profile_(profile) {}

  Prediction predict(const Problem& asked, const Variant& chosen,
                     const KernelResources& /*resources*/, int ctas_per_sm) override {
    const auto& problem = asked.as<ServingAttentionProblem>();
    const auto& variant = chosen.as<ServingAttentionVariant>();
    const Tiles tiles = tiles_of(problem, variant);
    const double places = 1.0 * profile_.device.sm_count * ctas_per_sm;
    const double workers = variant.workers > 0 ? std::min<double>(variant.workers, places) : places;
    const CompulsoryBytes bytes = compulsory_bytes(problem);
    const auto read = static_cast<double>(bytes.read);
    const auto written = static_cast<double>(bytes.write);
    const double columns = problem.head_dim + problem.head_dim_v;
    const double streamed = tiles.pairs * variant.tile_n * columns * 2.0;
    Prediction result;
    const Compute compute = compute_of(problem, variant, tiles);
    result.matrix_us = compute.matrix_us;
    result.softmax_us = compute.softmax_us;
    result.l2_us = time_us(std::max(streamed, read) + written, profile_.l2_gb_per_s);
    result.dram_us =
        time_us(read + written, profile_.device.dram_gb_per_s * profile_.dram_efficiency);
    const double bound = std::max({compute.both_us, result.l2_us, result.dram_us});
    const double uneven = imbalance(variant, tiles, workers);
    result.latency_us =
        bound * (uneven - 1.0) + profile_.kernel.launch_us + chain_us(variant, tiles, workers);
    result.time_us = bound + result.latency_us;
    result.read_sectors = sectors(std::max(streamed, read));
    result.write_sectors = sectors(written);
    result.compulsory_misses = sectors(read) + sectors(written);
    result.excess_misses = 0;
    return result;
  }

  KernelResources estimated_resources(const Problem& problem,
                                      const Variant& variant) const override {
    const ServingFamilyConfig of_family =
        config_of(problem.as<ServingAttentionProblem>(), variant.as<ServingAttentionVariant>());
    if (const auto* const hopper = std::get_if<HopperServingConfig>(&of_family)) {
      return {.registers_per_thread = hopper->dense().entry_registers()};
    }
    const auto& config = std::get<ServingAttentionConfig>(of_family);
    constexpr int kOthers = 90;
    const int held = config.pv().accumulator_registers() + kOthers;
    return {.registers_per_thread = std::min(held, config.pv().register_limit())};
  }
  std::optional<double> floor_us(const Problem& /*problem*/,
                                 const Variant& /*variant*/) const override {
    return std::nullopt;
  }

 private:
  struct Compute {
    double matrix_us = 0.0;
    double softmax_us = 0.0;
    double both_us = 0.0;  ///< As far as they hide one another.
  };

  /// As if all SMs worked evenly. The Hopper family's steps are those of the dense one.
  Compute compute_of(const ServingAttentionProblem& problem, const ServingAttentionVariant& variant,
                     const Tiles& tiles) const {
    const double giga_clocks = profile_.device.sm_count * profile_.clock_mhz / 1e3;
    const ServingFamilyConfig of_family = config_of(problem, variant);
    if (const auto* const hopper = std::get_if<HopperServingConfig>(&of_family)) {
      const HopperStep step = hopper_step(hopper->dense(), profile_);
      const double tile_clocks = hopper_tile_clocks(hopper->dense(), profile_);
      return {time_us(tiles.pairs * step.matrix_clocks, giga_clocks),
              time_us(tiles.pairs * step.softmax_clocks, giga_clocks),
              time_us(tiles.pairs * step.step_clocks + tiles.q_tiles * tile_clocks, giga_clocks)};
    }
    if (const auto& config = std::get<ServingAttentionConfig>(of_family); config.wgmma) {
      const HopperStep step = hopper_step(config.products(), profile_);
      return {time_us(tiles.pairs * step.matrix_clocks, giga_clocks),
              time_us(tiles.pairs * step.softmax_clocks, giga_clocks),
              time_us(tiles.pairs * step.step_clocks, giga_clocks)};
    }
    const double scores = tiles.pairs * variant.tile_m * variant.tile_n;
    const double columns = problem.head_dim + problem.head_dim_v;
    const double matrix_us =
        time_us(scores * columns * 2.0, main_loop_flop_per_clock(profile_) * giga_clocks);
    const double softmax_us = time_us(scores, profile_.exp2_per_clock_per_sm * giga_clocks);
    return {matrix_us, softmax_us, matrix_us + softmax_us};
  }

  /// Loads that wait for one another: lengths, page ids, the first tile; and where CTAs share a Q
  /// tile the counter and the parts, eight at a time.
  double chain_us(const ServingAttentionVariant& variant, const Tiles& tiles,
                  double workers) const {
    constexpr double kPartsAtOnce = 8.0;
    constexpr double kFirstLoads = 3.0;
    const double dram_us = profile_.dram_latency_clocks / profile_.clock_mhz;
    const double l2_us = profile_.l2_latency_clocks / profile_.clock_mhz;
    const double ranges = std::min(workers, std::max(1.0, tiles.pairs / variant.least_units));
    const double parts = variant.deal == Deal::ranges   ? ranges / std::max(1.0, tiles.q_tiles)
                         : variant.deal == Deal::direct ? parts_of_item(variant, tiles, workers)
                                                        : 0.0;
    return kFirstLoads * dram_us + (parts > 0.0 ? l2_us * (2.0 + parts / kPartsAtOnce) : 0.0);
  }

  GpuProfile profile_;
};

}  // namespace

std::unique_ptr<Predictor> make_serving_attention_predictor(const GpuProfile& profile) {
  return std::make_unique<ServingAttentionPredictor>(profile);
}

}  // namespace swr
