// SPDX-License-Identifier: MIT
// The points of the studies of attention. Sources: Sawtooth Wavefront
// Reordering (Zhu, Pan, Ding) and TiledAttention (Khan), both on a GB10; their numbers of figures
// and tables are in the titles.
#include "experiments/studies/gemm_study.h"
#include "experiments/studies/tile_choices.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <array>
#include <utility>

namespace swr {
namespace {

constexpr int kK = 1024;

AttentionProblem square(int seq, int batch = 1, bool causal = false) {
  return {.batch = batch, .seq_q = seq, .seq_kv = seq, .head_dim = 64, .causal = causal};
}

/// The papers' kernel: square tiles, one stage, a warp per 16 rows.
AttentionVariant square_tile(int tile, Persistence persistence, int workers, Order order) {
  return {.tile_m = tile,
          .tile_n = tile,
          .warps = tile / 16,
          .stages = 1,
          .order = order,
          .persistence = persistence,
          .workers = workers};
}

AttentionVariant persistent(int tile, int workers, Order order = Order::cyclic) {
  return square_tile(tile, Persistence::persistent, workers, order);
}

/// The tile of the model's study and of the comparison.
constexpr int kModelTile = 80;
constexpr int kComparisonTile = 64;

Experiment sectors(const DeviceInfo& device, bool causal) {
  Experiment experiment{.id = causal ? "sectors_causal" : "sectors",
                        .title = causal
                                     ? "L2 sectors against the formula, causal (Figure 4, Table 3)"
                                     : "L2 sectors against the formula (Figure 3, Tables 1 and 2)",
                        .x_title = "S",
                        .points = {}};
  for (int seq = 8 * kK; seq <= 128 * kK; seq += 8 * kK) {
    const AttentionProblem problem = square(seq, 1, causal);
    experiment.points.push_back(
        {problem, persistent(kModelTile, device.sm_count), "persistent", seq * 1.0});
    experiment.points.push_back({problem,
                                 square_tile(kModelTile, Persistence::grid, 0, Order::cyclic),
                                 "one CTA per Q tile", seq * 1.0});
  }
  return experiment;
}

Experiment misses_begin(const DeviceInfo& device) {
  Experiment experiment{.id = "misses_begin",
                        .title = "Where excess misses begin (Figure 5)",
                        .x_title = "S",
                        .points = {}};
  for (int seq = 16 * kK; seq <= 128 * kK; seq += 8 * kK) {
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      experiment.points.push_back({square(seq), persistent(kModelTile, device.sm_count, order),
                                   std::string(to_string(order)), seq * 1.0});
    }
  }
  return experiment;
}

Experiment hit_rate(const DeviceInfo& device) {
  Experiment experiment{.id = "active_sms",
                        .title = "L2 hit rate by active SMs, S = 128K (Figure 6)",
                        .x_title = "active SMs",
                        .points = {}};
  for (int sms = 1; sms <= device.sm_count; sms = sms < 8 ? sms * 2 : sms + 8) {
    experiment.points.push_back(
        {square(128 * kK), persistent(kModelTile, sms), "persistent", sms * 1.0});
  }
  return experiment;
}

Experiment batches(const DeviceInfo& device) {
  Experiment experiment{.id = "batches",
                        .title = "Cyclic against sawtooth by batch, S = 128K (Figures 7 and 8)",
                        .x_title = "batch",
                        .points = {}};
  for (const int batch : {1, 2, 4, 8}) {
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      experiment.points.push_back({square(128 * kK, batch),
                                   persistent(kComparisonTile, device.sm_count, order),
                                   std::string(to_string(order)), batch * 1.0});
    }
  }
  return experiment;
}

Experiment forms(const DeviceInfo& device, bool causal) {
  Experiment experiment{
      .id = causal ? "forms_causal" : "forms",
      .title = causal ? "Both schedule forms by S, batch 8, causal (Figures 11 and 12)"
                      : "Both schedule forms by S, batch 8 (Figures 9 and 10)",
      .x_title = "S",
      .points = {}};
  for (const int seq : {32 * kK, 64 * kK, 96 * kK, 128 * kK}) {
    for (const Order order : {Order::cyclic, Order::sawtooth}) {
      const AttentionProblem problem = square(seq, 8, causal);
      const std::string name(to_string(order));
      experiment.points.push_back({problem, persistent(kComparisonTile, device.sm_count, order),
                                   "persistent " + name, seq * 1.0});
      experiment.points.push_back({problem,
                                   square_tile(kComparisonTile, Persistence::pairs, 0, order),
                                   "pairs " + name, seq * 1.0});
    }
  }
  return experiment;
}

Study sawtooth(const DeviceInfo& device) {
  return {"sawtooth",
          "Sawtooth Wavefront Reordering",
          {sectors(device, false), sectors(device, true), misses_begin(device), hit_rate(device),
           batches(device), forms(device, false), forms(device, true)}};
}

/// The grid of 80: S, D, mask and type; 16 heads, which the paper leaves open.
std::vector<AttentionProblem> tiled_problems() {
  std::vector<AttentionProblem> problems;
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      for (const int head_dim : {64, 96, 128, 160}) {
        for (const int seq : {512, 1024, 2048, 4096, 8192}) {
          problems.push_back({.heads_q = 16,
                              .heads_kv = 16,
                              .seq_q = seq,
                              .seq_kv = seq,
                              .head_dim = head_dim,
                              .dtype = dtype,
                              .causal = causal});
        }
      }
    }
  }
  return problems;
}

/// Both row counts, all column counts and stages; 128 rows by 4 warps and, for what then lacks
/// registers, by 8.
void add_tiles(const AttentionProblem& problem, Experiment& grid) {
  constexpr std::array<std::pair<int, int>, 3> kRowsAndWarps{{{64, 4}, {128, 4}, {128, 8}}};
  for (const auto& [tile_m, warps] : kRowsAndWarps) {
    for (const int tile_n : {64, 128, 256}) {
      for (int stages = 1; stages <= 4; ++stages) {
        grid.points.push_back(
            {problem,
             AttentionVariant{.tile_m = tile_m, .tile_n = tile_n, .warps = warps, .stages = stages},
             std::to_string(tile_m) + "x" + std::to_string(tile_n), problem.seq_q * 1.0});
      }
    }
  }
}

Study tiled_attention() {
  Experiment grid{.id = "grid",
                  .title = "Tiles and stages over the grid of 80 shapes",
                  .x_title = "S",
                  .points = {},
                  .is_grid_of_tiles = true};
  for (const AttentionProblem& problem : tiled_problems()) {
    add_tiles(problem, grid);
  }
  Study study{"tiled-attention", "TiledAttention", {std::move(grid)}};
  study.write_choices = write_tile_choices;
  return study;
}

}  // namespace

Study sawtooth_study(const DeviceInfo& device) { return sawtooth(device); }
Study tiled_attention_study(const DeviceInfo& /*device*/) { return tiled_attention(); }

}  // namespace swr
