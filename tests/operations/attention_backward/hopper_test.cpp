// SPDX-License-Identifier: MIT
// The Hopper family of attention backward: sizes that host and kernel share, its place in the
// space, its launches and its kernels.
#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/constraints.h>
#include <swr/generator.h>
#include <swr/kernel.h>
#include <swr/search_space.h>

namespace swr {
namespace {

using P = AttentionBackwardProblem;
using V = AttentionBackwardVariant;

P problem_of(int head_dim, int head_dim_v) {
  return {.batch = 2,
          .heads_q = 16,
          .heads_kv = 4,
          .seq_q = 4000,
          .seq_kv = 4096,
          .head_dim = head_dim,
          .head_dim_v = head_dim_v,
          .dtype = DType::bf16,
          .causal = true};
}
const P kHopperTraining = problem_of(128, 128);
const V kHopper{.family = Family::hopper, .tile_m = 64, .tile_n = 128, .warps = 8, .stages = 2};

std::vector<HopperKeyPassConfig> every_config() {
  std::vector<HopperKeyPassConfig> all;
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (int head_dim_v = 16; head_dim_v <= 256; head_dim_v += 16) {
      for (const int stages : {2, 3}) {
        for (const DqSum sum : {DqSum::atomic, DqSum::ordered, DqSum::none}) {
          const P problem = problem_of(head_dim, head_dim_v);
          const V variant =
              with(kHopper, &V::tile_m, std::max(head_dim, head_dim_v) <= 64 ? 128 : 64, &V::tile_n,
                   std::max(head_dim, head_dim_v) <= 128 ? 128 : 64, &V::stages, stages, &V::dq_sum,
                   sum);
          all.push_back(std::get<HopperAttentionBackwardConfig>(config_of(problem, variant)).key);
        }
      }
    }
  }
  return all;
}

TEST(HopperBackwardConfig, PlacesSwizzledTilesAndBarriers) {
  for (const HopperKeyPassConfig& c : every_config()) {
    for (const int offset : {c.k_offset(), c.v_offset(), c.q_offset(), c.d_o_offset(),
                             c.ds_offset(), c.q_bytes(), c.d_o_bytes(), c.ds_bytes()}) {
      ASSERT_EQ(offset % 1024, 0) << c.head_dim << "/" << c.value_dim;
    }
    ASSERT_EQ(c.staged_dq_offset() % 128, 0);
    ASSERT_EQ(c.stats_offset() % 16, 0);
    ASSERT_EQ(c.barrier_offset() % 8, 0);
    ASSERT_EQ(c.item_offset() % 16, 0);
    ASSERT_EQ(c.staged_dq_bytes() % 128, 0);
  }
}

/// 384 threads start with 168 registers each, 64512 together: consumers that waited for 240 beside
/// a loading warpgroup with 32 would wait for ever.
TEST(HopperBackwardConfig, WarpgroupsTradeOnlyRegistersThatTheCtaHas) {
  for (const HopperKeyPassConfig& c : every_config()) {
    ASSERT_EQ(c.launched_registers() % 8, 0);
    ASSERT_LE(c.launched_registers() * c.threads(), 65536);
    const int kept = 128 * c.producer_registers() + 128 * c.consumers() * c.consumer_registers();
    ASSERT_LE(kept, c.launched_registers() * c.threads()) << to_string(c.dq_sum);
    ASSERT_TRUE(c.trades_what_it_has());
  }
}

/// Shares of all warps cover the tile's sums once, in the pieces that the copy engine adds.
TEST(HopperBackwardConfig, WarpsDivideTheSumsOfDq) {
  for (const HopperKeyPassConfig& c : every_config()) {
    if (!c.is_whole() || !c.sums_dq()) {
      continue;
    }
    ASSERT_EQ(c.warps % c.dq_row_warps(), 0);
    ASSERT_EQ(16 * c.dq_blocks() * c.dq_row_warps(), c.tile_m);
    ASSERT_EQ(c.dq_columns() * (c.warps / c.dq_row_warps()), c.dq_sum_columns());
    const int floats = c.warps * c.dq_fragments() * 128;
    ASSERT_EQ(floats, c.tile_m * c.dq_sum_columns());
    ASSERT_EQ(c.staged_dq_bytes(), c.stages_dq() ? 4 * floats : 0);
    ASSERT_GE(c.dq_sum_columns(), c.head_dim);
  }
}

/// Columns that are padding are not added.
TEST(HopperBackwardConfig, SharesOfDqHaveTheColumnsOfTheHead) {
  for (const HopperKeyPassConfig& c : every_config()) {
    if (!c.is_whole() || !c.sums_dq()) {
      continue;
    }
    int bytes = 0;
    for (int share = 0; share < c.warps; ++share) {
      ASSERT_GE(c.dq_share_bytes(share), 0);
      ASSERT_LE(c.dq_share_bytes(share), 16 * c.dq_columns() * 4);
      ASSERT_EQ(c.dq_share_bytes(share) % 16, 0);
      if (c.stages_dq()) {
        ASSERT_GT(c.dq_share_bytes(share), 0) << "nothing to copy";
      }
      bytes += c.dq_share_bytes(share);
    }
    ASSERT_EQ(bytes, c.tile_m * c.head_dim * 4) << c.head_dim << "/" << c.value_dim;
  }
}

TEST(HopperBackwardSpace, IsTheDefaultWhereItIsLegal) {
  for (const auto& [problem, hopper] : {
           std::pair{kHopperTraining, true},
           {problem_of(64, 64), true},
           {problem_of(96, 96), true},
           {problem_of(192, 128), true},
           {problem_of(256, 256), true},
           {with(kHopperTraining, &P::alignment_bytes, 8), false},
           {with(kHopperTraining, &P::deterministic, true), true},
           {with(problem_of(256, 256), &P::deterministic, true), true},
           {with(problem_of(192, 128), &P::deterministic, true), true},
       }) {
    DeviceInfo device = device_of(90);
    device.l2_bytes = 50LL << 20;
    const V usual = default_variant(Problem(problem), device).as<V>();
    EXPECT_EQ(usual.family == Family::hopper, hopper) << to_string(Problem(problem));
    EXPECT_EQ(dropped_by(problem, usual, 90), "");
    EXPECT_EQ(default_variant(Problem(problem), device_of(120)).as<V>().family, Family::portable);
    if (hopper) {
      const bool in_turn = problem.deterministic || problem.head_dim <= 128;
      EXPECT_EQ(usual.dq_sum, in_turn ? DqSum::ordered : DqSum::atomic) << "the faster one";
    }
  }
}

TEST(HopperBackwardSpace, WideHeadsOfTheirOwnKeysTakeOneBand) {
  const auto bands_of = [](int head_dim, int heads_kv) {
    const P problem = with(problem_of(head_dim, head_dim), &P::deterministic, true, &P::heads_q, 16,
                           &P::heads_kv, heads_kv);
    return default_variant(Problem(problem), device_of(90)).as<V>().bands;
  };
  EXPECT_GT(bands_of(128, 16), 1);
  EXPECT_EQ(bands_of(256, 16), 1);
  EXPECT_GT(bands_of(256, 4), 1);
}

TEST(HopperBackwardSpace, HoldsBothFamilies) {
  std::set<std::pair<Family, DqSum>> found;
  for (const Variant& one : enumerate_space(kHopperTraining, device_of(90), {}).variants) {
    const V& variant = one.as<V>();
    EXPECT_EQ(dropped_by(kHopperTraining, one, 90), "") << to_key(one);
    EXPECT_EQ(parse_variant(attention_backward_operation(), to_key(one)), one);
    found.insert({variant.family, variant.dq_sum});
  }
  EXPECT_TRUE(found.contains({Family::hopper, DqSum::atomic}));
  EXPECT_TRUE(found.contains({Family::hopper, DqSum::none}));
  EXPECT_TRUE(found.contains({Family::hopper, DqSum::ordered}));
  EXPECT_TRUE(found.contains({Family::portable, DqSum::atomic}));
}

TEST(HopperBackwardSpace, SaysWhyAVariantIsDropped) {
  const std::pair<V, std::string> dropped[] = {
      {with(kHopper, &V::tile_m, 96), "tile_shape"},
      {with(kHopper, &V::tile_n, 192), "tile_shape"},
      {with(kHopper, &V::warps, 4), "tile_shape"},
      {with(kHopper, &V::wide_adds, true), "family_axes"},
      {with(kHopper, &V::rows_at_once, 32), "family_axes"},
      {with(kHopper, &V::persistence, Persistence::dynamic), "family_axes"},
      {with(kHopper, &V::dq_sum, DqSum::ordered, &V::persistence, Persistence::persistent),
       "family_axes"},
      {with(kHopper, &V::dq_sum, DqSum::ordered, &V::order, QOrder::rotated), "turns"},
      {with(kHopper, &V::dq_sum, DqSum::ordered, &V::stages, 3), "shared_memory"},
      {with(kHopper, &V::bands, 33), "bands"},
      {with(kHopper, &V::stages, 1), "family_axes"},
      {with(V{}, &V::stages, 3), "family_axes"},
      {with(kHopper, &V::tile_m, 128), "shared_memory"},
      {with(kHopper, &V::tile_m, 128, &V::form, BackwardForm::two_pass, &V::dq_sum, DqSum::none),
       "registers"},
  };
  for (const auto& [variant, constraint] : dropped) {
    EXPECT_EQ(dropped_by(kHopperTraining, variant, 90), constraint) << to_key(variant);
  }
  EXPECT_EQ(dropped_by(kHopperTraining, kHopper, 120), "architecture");
  EXPECT_EQ(dropped_by(problem_of(192, 128), kHopper, 90), "tile_shape");
  const P one_head = with(kHopperTraining, &P::batch, 1, &P::heads_q, 1, &P::heads_kv, 1);
  const V banded = with(kHopper, &V::bands, 2);
  EXPECT_EQ(dropped_by(one_head, banded, 90), "bands");
  EXPECT_EQ(dropped_by(one_head, with(banded, &V::last_kv_first, true), 90), "");
  const P unaligned = with(kHopperTraining, &P::alignment_bytes, 4);
  EXPECT_EQ(dropped_by(unaligned, kHopper, 90), "alignment");
}

TEST(HopperBackwardLaunch, KernelsAroundHaveTheThreadsOfTheConsumers) {
  const P narrow = problem_of(96, 80);
  const AttentionBackwardPlan plan = plan_of(narrow, kHopper, 132, 1);
  EXPECT_TRUE(plan.takes_tensor_maps());
  EXPECT_EQ(plan.row_box.rows, 64);
  EXPECT_EQ(plan.key_box.rows, 128);
  EXPECT_EQ(plan.gradient_box.rows, 64);
  const AttentionBackwardGeometry geometry = attention_backward_geometry(plan, sizes_of(narrow));
  EXPECT_EQ(geometry.prepare.block_x, 256);
  EXPECT_EQ(geometry.key_pass.block_x, 384);
  EXPECT_EQ(geometry.finish.block_x, 256);
  EXPECT_EQ(geometry.prepare.grid_x, 2 * 16 * 63);
  EXPECT_EQ(geometry.key_pass.grid_x, 2 * 4 * 32);
  EXPECT_EQ(geometry.workspace.bytes, 8LL * 2 * 16 * 4000 + 4LL * 2 * 16 * 63 * 64 * 128)
      << "sums of dQ have the columns as they are stored";
  const V two_pass = with(kHopper, &V::form, BackwardForm::two_pass, &V::dq_sum, DqSum::none);
  EXPECT_EQ(launch_geometry(narrow, two_pass, 132, 1).partials_bytes, 8LL * 2 * 16 * 4000);
}

/// Nobody makes 16-bit elements of sums in turn but the kernel after; items are drawn.
TEST(HopperBackwardLaunch, TurnsHaveWordsAndACounterInTheWorkspace) {
  const V ordered =
      with(kHopper, &V::dq_sum, DqSum::ordered, &V::last_kv_first, true, &V::bands, 4);
  const P narrow = problem_of(96, 80);
  const AttentionBackwardPlan plan = plan_of(narrow, ordered, 132, 1);
  const AttentionBackwardGeometry geometry = attention_backward_geometry(plan, sizes_of(narrow));
  EXPECT_EQ(geometry.prepare.grid_x, 2 * 16 * 63);
  EXPECT_EQ(geometry.finish.grid_x, 2 * 16 * 63);
  EXPECT_EQ(geometry.workspace.item_counter - geometry.workspace.turns, 2 * 16 * 63 * 8 * 4);
  EXPECT_EQ(geometry.workspace.dkv_parts - geometry.workspace.item_counter, 256);
  AttentionBackwardParams params = sizes_of(narrow);
  place_workspace(params, plan, geometry, nullptr);
  EXPECT_EQ(params.bands, 4);
}

TEST(HopperBackwardSpace, TakesTurnsWhereTheProblemIsDeterministic) {
  const P problem = with(kHopperTraining, &P::deterministic, true);
  const V usual = default_variant(Problem(problem), device_of(90)).as<V>();
  EXPECT_EQ(usual.dq_sum, DqSum::ordered);
  EXPECT_TRUE(usual.last_kv_first);
  EXPECT_EQ(usual.bands, 4);
  const P whole = with(problem, &P::causal, false, &P::batch, 1, &P::heads_q, 1, &P::heads_kv, 1);
  const V plain = default_variant(Problem(whole), device_of(90)).as<V>();
  EXPECT_EQ(plain.dq_sum, DqSum::ordered);
  EXPECT_FALSE(plain.last_kv_first);
  EXPECT_EQ(plain.bands, 1) << "of one head";
  const P short_keys = with(problem, &P::seq_kv, 200);
  EXPECT_EQ(default_variant(Problem(short_keys), device_of(90)).as<V>().bands, 1);
}

/// The default of one sequence on a GPU of 132 SMs.
V default_of(bool causal, int heads_q, int heads_kv, int length) {
  const P problem = with(kHopperTraining, &P::batch, 1, &P::heads_q, heads_q, &P::heads_kv,
                         heads_kv, &P::seq_q, length, &P::seq_kv, length, &P::causal, causal);
  DeviceInfo device = device_of(90);
  device.sm_count = 132;
  device.l2_bytes = 50LL << 20;
  const Variant variant = default_variant(Problem(problem), device);
  EXPECT_FALSE(check_constraints(Problem(problem), variant, device));
  return variant.as<V>();
}

TEST(HopperBackwardSpace, SharesWalksWhereBandsDoNotFillTheGpu) {
  EXPECT_EQ(default_of(true, 16, 8, 4096).parts, 2) << "no more than query heads of a group";
  EXPECT_EQ(default_of(true, 16, 16, 2048).parts, 1) << "parts of a head would wait for each other";
  EXPECT_EQ(default_of(false, 64, 8, 4096).parts, 1) << "no band ends before another";
  EXPECT_EQ(default_of(false, 64, 8, 1024).parts, 2) << "64 tiles on 132 SMs";
  EXPECT_EQ(default_of(false, 16, 16, 128).parts, 1);
}

/// Measured on an H100 (experiments/attention_backward/grouped_heads.md): 132 CTAs spread over 66
/// MiB of a group of 8 heads, of which L2 keeps two copies in 50.
TEST(HopperBackwardSpace, SharesWalksUntilTheGroupStaysInL2) {
  for (const int length : {4096, 8192, 16384}) {
    const V grouped = default_of(true, 64, 8, length);
    EXPECT_EQ(grouped.parts, 4) << length;
    EXPECT_EQ(grouped.dq_sum, DqSum::atomic) << length;
  }
  EXPECT_EQ(default_of(true, 64, 8, 2048).dq_sum, DqSum::ordered) << "128 tiles on 132 SMs";
  EXPECT_EQ(default_of(true, 32, 8, 8192).parts, 2) << "50 MiB of a group of 4";
  EXPECT_EQ(default_of(true, 40, 8, 8192).parts, 5) << "parts hold whole query heads";
  EXPECT_EQ(default_of(true, 32, 8, 4096).dq_sum, DqSum::ordered) << "12 MiB of a group, not 24";
  EXPECT_EQ(default_of(true, 32, 8, 8192).dq_sum, DqSum::atomic);
  EXPECT_EQ(default_of(true, 64, 8, 65536).parts, 2) << "sums of four parts exceed 1 GiB";
  EXPECT_EQ(default_of(false, 64, 8, 8192).dq_sum, DqSum::ordered) << "all walks are equally long";
  EXPECT_EQ(default_of(true, 16, 16, 8192).dq_sum, DqSum::ordered) << "a head of its own";
}

TEST(HopperBackwardSpace, BandsHaveFourTilesAndMoreThanTheGpuHoldsAtOnce) {
  EXPECT_EQ(default_of(true, 64, 64, 512).bands, 1);
  EXPECT_EQ(default_of(true, 64, 64, 1024).bands, 2);
  EXPECT_EQ(default_of(true, 64, 64, 2048).bands, 4);
  EXPECT_EQ(default_of(true, 16, 16, 1024).bands, 1) << "128 tiles on 132 SMs";
  EXPECT_EQ(default_of(true, 64, 8, 1024).bands, 2) << "256 parts of tiles";
}

/// experiments/attention_backward, "Hopper family", 1 x 16384, 16 heads.
TEST(HopperBackwardModel, IsNearTheRatesMeasuredOnAnH200) {
  const std::unique_ptr<Predictor> model =
      attention_backward_operation().model()->make_predictor(load_profile("h200"));
  const auto tflops = [&](int head_dim, bool causal, const V& variant) {
    const P problem = with(problem_of(head_dim, head_dim), &P::batch, 1, &P::heads_kv, 16,
                           &P::seq_q, 16384, &P::seq_kv, 16384, &P::causal, causal);
    return flop_count(Problem(problem)) / model->predict(problem, variant, {}, 1).time_us / 1e6;
  };
  EXPECT_NEAR(tflops(128, false, kHopper), 555.0, 45.0);
  EXPECT_NEAR(tflops(128, true, kHopper), 541.0, 45.0);
  EXPECT_NEAR(tflops(96, true, kHopper), 444.0, 45.0);
  EXPECT_NEAR(tflops(256, true, with(kHopper, &V::tile_n, 64)), 422.0, 45.0);
  EXPECT_NEAR(tflops(64, false, with(kHopper, &V::tile_m, 128)), 475.0, 45.0);
}

/// experiments/attention_backward/grouped_heads.md: 10.81 ms and 512 M sectors from memory with one
/// part, 7.26 ms and 105 M with four.
TEST(HopperBackwardModel, PartsKeepTheHeadsOfAGroupInL2) {
  const std::unique_ptr<Predictor> model =
      attention_backward_operation().model()->make_predictor(load_profile("h100"));
  const P problem =
      with(problem_of(256, 256), &P::batch, 1, &P::heads_q, 32, &P::seq_q, 8192, &P::seq_kv, 8192);
  const auto predicted = [&](int parts) {
    return model->predict(problem, with(kHopper, &V::tile_n, 64, &V::parts, parts), {}, 1);
  };
  EXPECT_NEAR(predicted(1).time_us, 10810.0, 2500.0);
  EXPECT_NEAR(predicted(4).time_us, 7260.0, 700.0);
  EXPECT_GT(predicted(1).excess_misses, 4 * predicted(4).excess_misses);
}

/// Of the schedule, each tile followed: 0.93 of the atomic rate with one band, 0.98 with four.
TEST(HopperBackwardModel, BandsShortenTheEndOfACausalLaunch) {
  const std::unique_ptr<Predictor> model =
      attention_backward_operation().model()->make_predictor(load_profile("h200"));
  const P problem = with(problem_of(128, 128), &P::batch, 1, &P::heads_kv, 16, &P::seq_q, 16384,
                         &P::seq_kv, 16384);
  const auto time_us = [&](const V& variant) {
    return model->predict(problem, variant, {}, 1).time_us;
  };
  const auto ordered = [](int bands) {
    return with(kHopper, &V::dq_sum, DqSum::ordered, &V::last_kv_first, true, &V::bands, bands);
  };
  EXPECT_NEAR(time_us(kHopper) / time_us(ordered(1)), 0.94, 0.03);
  EXPECT_NEAR(time_us(kHopper) / time_us(ordered(4)), 0.99, 0.03);
  const P whole = with(problem, &P::causal, false);
  const V cyclic = with(ordered(1), &V::last_kv_first, false);
  const double share =
      model->predict(whole, kHopper, {}, 1).time_us / model->predict(whole, cyclic, {}, 1).time_us;
  EXPECT_GT(share, 0.88);
  EXPECT_LT(share, 1.02);
}

/// Without spills, and with products that overlap.
void expect_clean(const P& problem, const Variant& variant) {
  const CompiledKernel kernel = Generator({}).compile(problem, variant, 90);
  EXPECT_EQ(kernel.entry, kBackwardKeyPass);
  EXPECT_TRUE(kernel.may_overlap);
  const auto broken = check_compiled(problem, variant, device_of(90), kernel.resources);
  EXPECT_FALSE(broken) << to_key(variant) << ": " << broken->reason;
  EXPECT_EQ(kernel.resources.wgmma_warnings, 0);
}

TEST(HopperBackwardKernel, DefaultsCompileClean) {
  for (const auto& [head_dim, deterministic] :
       {std::pair{128, false}, {128, true}, {64, true}, {96, false}, {96, true}, {256, false}}) {
    const P problem = with(problem_of(head_dim, head_dim), &P::deterministic, deterministic);
    const Variant variant = default_variant(Problem(problem), device_of(90));
    ASSERT_EQ(variant.as<V>().family, Family::hopper);
    expect_clean(problem, variant);
  }
}

TEST(HopperBackwardKernel, TurnsOfWideHeadsAreOfferedAndCompileClean) {
  for (const auto& [head_dim, head_dim_v] : {std::pair{256, 256}, {192, 128}}) {
    const P problem = with(problem_of(head_dim, head_dim_v), &P::deterministic, true);
    const std::vector<Variant> all = enumerate_space(problem, device_of(90), {}).variants;
    const auto in_turn = std::ranges::find_if(all, [](const Variant& one) {
      return one.as<V>().family == Family::hopper && one.as<V>().dq_sum == DqSum::ordered;
    });
    ASSERT_NE(in_turn, all.end()) << to_string(Problem(problem));
    expect_clean(problem, *in_turn);
  }
}

}  // namespace
}  // namespace swr
