// SPDX-License-Identifier: MIT
// The Hopper family of attention backward: sizes that host and kernel share, its place in the
// space, its launches and its kernels.
#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "tests/templates/attention/portable/chips.h"
#include <swr/constraints.h>
#include <swr/generator.h>
#include <swr/kernel.h>
#include <swr/search_space.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

template <typename Value, typename Change>
Value with(Value value, Change change) {
  change(value);
  return value;
}

std::vector<HopperKeyPassConfig> every_config() {
  std::vector<HopperKeyPassConfig> all;
  for (int head_dim = 16; head_dim <= 256; head_dim += 16) {
    for (int head_dim_v = 16; head_dim_v <= 256; head_dim_v += 16) {
      for (const int stages : {2, 3}) {
        for (const DqSum sum : {DqSum::atomic, DqSum::none}) {
          const P problem = problem_of(head_dim, head_dim_v);
          const V variant = with(kHopper, [&](V& v) {
            v.tile_m = std::max(head_dim, head_dim_v) <= 64 ? 128 : 64;
            v.tile_n = std::max(head_dim, head_dim_v) <= 128 ? 128 : 64;
            v.stages = stages;
            v.dq_sum = sum;
          });
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
    ASSERT_EQ(c.place_offset() % 16, 0);
    ASSERT_EQ(c.barrier_offset() % 8, 0);
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
           {with(kHopperTraining, [](P& p) { p.alignment_bytes = 8; }), false},
           {with(kHopperTraining, [](P& p) { p.deterministic = true; }), true},
           {with(problem_of(256, 256), [](P& p) { p.deterministic = true; }), false},
       }) {
    const V usual = default_variant(Problem(problem), device_of(90)).as<V>();
    EXPECT_EQ(usual.family == Family::hopper, hopper) << to_string(Problem(problem));
    EXPECT_FALSE(check_constraints(problem, usual, device_of(90)));
    EXPECT_EQ(default_variant(Problem(problem), device_of(120)).as<V>().family, Family::portable);
  }
}

TEST(HopperBackwardSpace, HoldsBothFamilies) {
  std::set<std::pair<Family, DqSum>> found;
  for (const Variant& one : enumerate_space(kHopperTraining, device_of(90), {}).variants) {
    const V& variant = one.as<V>();
    EXPECT_FALSE(check_constraints(kHopperTraining, one, device_of(90))) << to_key(one);
    EXPECT_EQ(parse_variant(attention_backward_operation(), to_key(one)), one);
    found.insert({variant.family, variant.dq_sum});
  }
  EXPECT_TRUE(found.contains({Family::hopper, DqSum::atomic}));
  EXPECT_TRUE(found.contains({Family::hopper, DqSum::none}));
  EXPECT_FALSE(found.contains({Family::hopper, DqSum::ordered}));
  EXPECT_TRUE(found.contains({Family::portable, DqSum::atomic}));
}

TEST(HopperBackwardSpace, SaysWhyAVariantIsDropped) {
  const auto hopper = [](auto change) { return with(kHopper, change); };
  const std::pair<V, std::string> dropped[] = {
      {hopper([](V& v) { v.tile_m = 96; }), "tile_shape"},
      {hopper([](V& v) { v.tile_n = 192; }), "tile_shape"},
      {hopper([](V& v) { v.warps = 4; }), "tile_shape"},
      {hopper([](V& v) { v.wide_adds = true; }), "family_axes"},
      {hopper([](V& v) { v.rows_at_once = 32; }), "family_axes"},
      {hopper([](V& v) { v.persistence = Persistence::dynamic; }), "family_axes"},
      {hopper([](V& v) { v.dq_sum = DqSum::ordered; }), "family_axes"},
      {hopper([](V& v) { v.stages = 1; }), "family_axes"},
      {with(V{}, [](V& v) { v.stages = 3; }), "family_axes"},
      {hopper([](V& v) { v.tile_m = 128; }), "shared_memory"},
      {hopper([](V& v) {
         v.tile_m = 128;
         v.form = BackwardForm::two_pass;
         v.dq_sum = DqSum::none;
       }),
       "registers"},
  };
  for (const auto& [variant, constraint] : dropped) {
    const auto found = check_constraints(kHopperTraining, variant, device_of(90));
    ASSERT_TRUE(found) << to_key(variant);
    EXPECT_EQ(found->constraint, constraint) << found->reason;
  }
  EXPECT_EQ(check_constraints(kHopperTraining, kHopper, device_of(120))->constraint,
            "architecture");
  EXPECT_EQ(check_constraints(problem_of(192, 128), kHopper, device_of(90))->constraint,
            "tile_shape");
  const P unaligned = with(kHopperTraining, [](P& p) { p.alignment_bytes = 4; });
  EXPECT_EQ(check_constraints(unaligned, kHopper, device_of(90))->constraint, "alignment");
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
  const V two_pass = with(kHopper, [](V& v) {
    v.form = BackwardForm::two_pass;
    v.dq_sum = DqSum::none;
  });
  EXPECT_EQ(launch_geometry(narrow, two_pass, 132, 1).partials_bytes, 8LL * 2 * 16 * 4000);
}

/// experiments/attention_backward/hopper_h200.txt, 1 x 16384, 16 heads.
TEST(HopperBackwardModel, IsNearTheRatesMeasuredOnAnH200) {
  const std::unique_ptr<Predictor> model =
      attention_backward_operation().make_predictor(load_profile("h200"));
  const auto tflops = [&](int head_dim, bool causal, const V& variant) {
    const P problem = with(problem_of(head_dim, head_dim), [&](P& p) {
      p.batch = 1;
      p.heads_kv = 16;
      p.seq_q = p.seq_kv = 16384;
      p.causal = causal;
    });
    return flop_count(Problem(problem)) / model->predict(problem, variant, {}, 1).time_us / 1e6;
  };
  EXPECT_NEAR(tflops(128, false, kHopper), 555.0, 45.0);
  EXPECT_NEAR(tflops(128, true, kHopper), 541.0, 45.0);
  EXPECT_NEAR(tflops(96, true, kHopper), 444.0, 45.0);
  EXPECT_NEAR(tflops(256, true, with(kHopper, [](V& v) { v.tile_n = 64; })), 422.0, 45.0);
  EXPECT_NEAR(tflops(64, false, with(kHopper, [](V& v) { v.tile_m = 128; })), 475.0, 45.0);
}

TEST(HopperBackwardKernel, DefaultsCompileClean) {
  const Generator generator({});
  for (const auto& [head_dim, deterministic] :
       {std::pair{128, false}, {128, true}, {64, true}, {96, false}, {256, false}}) {
    const P problem =
        with(problem_of(head_dim, head_dim), [&](P& p) { p.deterministic = deterministic; });
    const Variant variant = default_variant(Problem(problem), device_of(90));
    ASSERT_EQ(variant.as<V>().family, Family::hopper);
    const CompiledKernel kernel = generator.compile(problem, variant, 90);
    EXPECT_EQ(kernel.entry, kBackwardKeyPass);
    EXPECT_TRUE(kernel.may_overlap);
    const auto broken = check_compiled(problem, variant, device_of(90), kernel.resources);
    EXPECT_FALSE(broken) << to_key(variant) << ": " << broken->reason;
    EXPECT_EQ(kernel.resources.wgmma_warnings, 0);
  }
}

}  // namespace
}  // namespace swr
