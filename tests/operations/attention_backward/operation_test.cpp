// SPDX-License-Identifier: MIT
// Attention backward as an operation: problems, its space, its launches and workspace, its kernels
// on four chips and its model.
#include "core/operation.h"

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "templates/attention_backward/offered.h"
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

const P kTraining{.batch = 2,
                  .heads_q = 16,
                  .heads_kv = 4,
                  .seq_q = 4096,
                  .seq_kv = 4096,
                  .head_dim = 128,
                  .head_dim_v = 128,
                  .dtype = DType::bf16,
                  .causal = true};

const V kTwoPass{.form = BackwardForm::two_pass, .dq_sum = DqSum::none};

TEST(AttentionBackwardProblem, RefusesWhatNoKernelServes) {
  for (const P& wrong : {
           with(kTraining, &P::batch, 0),
           with(kTraining, &P::heads_kv, 3),
           with(kTraining, &P::seq_q, 0),
           with(kTraining, &P::head_dim, 72),
           with(kTraining, &P::head_dim, 144),
           with(kTraining, &P::head_dim_v, 288),
           with(kTraining, &P::alignment_bytes, 3),
       }) {
    EXPECT_THROW(validate(Problem(wrong)), Error);
  }
  for (const auto& [head_dim, head_dim_v] :
       {std::pair{16, 16}, {112, 48}, {192, 128}, {160, 256}}) {
    EXPECT_NO_THROW(
        validate(Problem(with(kTraining, &P::head_dim, head_dim, &P::head_dim_v, head_dim_v))));
  }
  EXPECT_EQ(to_string(Problem(kTraining)),
            "attention_backward b2 h16/4 s4096/4096 d128 bf16 causal");
  EXPECT_EQ(to_string(Problem(
                with(kTraining, &P::deterministic, true, &P::causal, false, &P::head_dim, 192))),
            "attention_backward b2 h16/4 s4096/4096 d192/128 bf16 deterministic");
}

TEST(AttentionBackwardProblem, CountsFiveProductsOfWhatIsSeen) {
  const P small{.seq_q = 3, .seq_kv = 5, .head_dim = 32, .head_dim_v = 16};
  EXPECT_EQ(flop_count(Problem(small)), 2.0 * 15 * (3 * 32 + 2 * 16));
  const P causal = with(small, &P::causal, true);
  EXPECT_EQ(flop_count(Problem(causal)), 2.0 * (3 + 4 + 5) * (3 * 32 + 2 * 16));
  const P more_rows = with(causal, &P::seq_q, 7);
  EXPECT_EQ(flop_count(Problem(more_rows)), 2.0 * (1 + 2 + 3 + 4 + 5) * (3 * 32 + 2 * 16));
  const CompulsoryBytes bytes = compulsory_bytes(Problem(small));
  EXPECT_EQ(bytes.read, 2 * 3 * (32 + 2 * 16) + 4 * 3 + 2 * 5 * (32 + 16));
  EXPECT_EQ(bytes.write, 2 * 3 * 32 + 2 * 5 * (32 + 16));
}

/// What was found for deterministic problems serves others, never the other way.
TEST(AttentionBackwardProblem, AnyProblemMayTakeWhatIsDeterministic) {
  const Operation& operation = attention_backward_operation();
  EXPECT_TRUE(operation.near_kind(kTraining, 1)->as<P>().deterministic);
  const P deterministic = with(kTraining, &P::deterministic, true);
  for (int i = 0; i < 3; ++i) {
    const auto near = operation.near_kind(deterministic, i);
    EXPECT_TRUE(!near || near->as<P>().deterministic);
  }
}

TEST(AttentionBackwardSpace, HoldsEveryLegalChoiceOnce) {
  for (const int sm_arch : {80, 90, 120}) {
    for (const bool deterministic : {false, true}) {
      const P problem = with(kTraining, &P::deterministic, deterministic);
      const SearchSpace space = enumerate_space(problem, device_of(sm_arch), {});
      EXPECT_GT(space.variants.size(), 20U);
      EXPECT_LT(space.variants.size(), 500U);
      std::set<DqSum> sums;
      for (const Variant& one : space.variants) {
        EXPECT_EQ(std::ranges::count(space.variants, one), 1) << to_key(one);
        EXPECT_EQ(parse_variant(attention_backward_operation(), to_key(one)), one);
        EXPECT_LT(to_key(one).size(), 512U) << "what an answer in C has room for";
        sums.insert(one.as<V>().dq_sum);
      }
      EXPECT_EQ(sums.contains(DqSum::atomic), !deterministic);
      EXPECT_TRUE(sums.contains(DqSum::ordered) && sums.contains(DqSum::none));
    }
  }
}

TEST(AttentionBackwardSpace, RestrictionsChooseAmongFormsAndTiles) {
  SpaceOptions options;
  options.restrictions["form"] = {std::string("two_pass")};
  options.restrictions["stages"] = {1LL};
  options.tiles = {{.tile_m = 64, .tile_n = 64, .warps = 4}};
  const SearchSpace space = enumerate_space(kTraining, device_of(90), options);
  EXPECT_FALSE(space.variants.empty());
  for (const Variant& one : space.variants) {
    const V& variant = one.as<V>();
    EXPECT_EQ(variant.form, BackwardForm::two_pass);
    EXPECT_EQ(variant.tile_m * variant.tile_n * variant.stages, 64 * 64);
  }
}

TEST(AttentionBackwardSpace, SaysWhyAVariantIsDropped) {
  const std::pair<V, std::string> dropped[] = {
      {{.dq_sum = DqSum::none}, "form"},
      {{.form = BackwardForm::two_pass}, "form"},
      {{.query_tile_m = 128}, "query_axes"},
      {with(kTwoPass, &V::query_order, Order::sawtooth), "query_axes"},
      {{.tile_n = 48}, "tile_shape"},
      {{.rows_at_once = 48}, "tile_shape"},
      {{.column_groups = 3}, "tile_shape"},
      {with(kTwoPass, &V::keys_at_once, 48), "tile_shape"},
      {{.dq_sum = DqSum::ordered, .wide_adds = true}, "wide_adds"},
      {{.dq_sum = DqSum::ordered, .order = QOrder::rotated}, "turns"},
      {{.workers = 132}, "worker_count"},
      {{.swizzle = AttentionSwizzle::head_sections, .section_heads = 8}, "sections"},
      {{.section_heads = 2, .parts = 2}, "sections"},
      {{.tile_m = 256, .tile_n = 64, .stages = 2}, "shared_memory"},
      {{.tile_n = 128, .rows_at_once = 64}, "registers"},
  };
  for (const auto& [variant, constraint] : dropped) {
    EXPECT_EQ(dropped_by(kTraining, variant, 90), constraint) << to_key(variant);
  }
  const P deterministic = with(kTraining, &P::deterministic, true);
  EXPECT_EQ(dropped_by(deterministic, V{}, 90), "deterministic");
  EXPECT_EQ(dropped_by(kTraining, V{.wide_adds = true}, 80), "wide_adds");
  const P ungrouped = with(kTraining, &P::heads_kv, 16);
  EXPECT_EQ(dropped_by(ungrouped, V{.order = QOrder::sawtooth}, 90), "local_walks");
  const P short_walk = with(kTraining, &P::heads_kv, 16, &P::seq_q, 128);
  EXPECT_EQ(dropped_by(short_walk, V{.parts = 3}, 90), "parts");
  const P large = with(kTraining, &P::seq_kv, 1 << 20);
  EXPECT_EQ(dropped_by(large, V{.parts = 2}, 90), "parts");
}

TEST(AttentionBackwardSpace, TheDefaultIsLegalOnEveryChip) {
  for (const int sm_arch : {80, 86, 90, 120, 121}) {
    for (int head_dim = 16; head_dim <= 256; head_dim += head_dim < 128 ? 16 : 32) {
      for (const bool deterministic : {false, true}) {
        const P problem = with(kTraining, &P::head_dim, head_dim, &P::head_dim_v,
                               head_dim == 192 ? 128 : head_dim, &P::deterministic, deterministic);
        const Variant usual = default_variant(Problem(problem), device_of(sm_arch));
        const auto broken = check_constraints(problem, usual, device_of(sm_arch));
        EXPECT_FALSE(broken) << to_string(Problem(problem)) << " sm_" << sm_arch << ": "
                             << broken->reason;
      }
    }
  }
}

/// As measured on an H100 (experiments/attention_backward/portable_tiles.md); where tensor cores
/// bind all tiles tie.
TEST(AttentionBackwardSpace, PortableDefaultsReadSharedMemoryLeastWhereItBinds) {
  const auto tiles_of = [](int sm_arch, int head_dim, int head_dim_v) {
    const P problem = with(kTraining, [&](P& p) {
      p.head_dim = head_dim;
      p.head_dim_v = head_dim_v;
      p.alignment_bytes = 8;  // The copy engine is out.
    });
    const V v = default_variant(Problem(problem), device_of(sm_arch)).as<V>();
    return std::array{v.tile_m, v.tile_n, v.warps, v.column_groups};
  };
  for (const int sm_arch : {80, 90}) {
    EXPECT_EQ(tiles_of(sm_arch, 64, 64), (std::array{64, 128, 4, 1}));
    EXPECT_EQ(tiles_of(sm_arch, 96, 96), (std::array{64, 64, 4, 2}));
    EXPECT_EQ(tiles_of(sm_arch, 128, 128), (std::array{64, 128, 8, 2}));
    EXPECT_EQ(tiles_of(sm_arch, 192, 128), (std::array{64, 64, 8, 4}));
    EXPECT_EQ(tiles_of(sm_arch, 256, 256), (std::array{64, 64, 8, 4}));
    EXPECT_EQ(tiles_of(sm_arch, 80, 80)[3], 1) << "40 columns are no whole blocks";
  }
  for (const int sm_arch : {86, 89, 120, 121}) {
    EXPECT_EQ(tiles_of(sm_arch, 64, 64), (std::array{64, 128, 8, 1}));
    EXPECT_EQ(tiles_of(sm_arch, 128, 128), (std::array{32, 128, 8, 1}));
    EXPECT_EQ(tiles_of(sm_arch, 256, 256)[3], 2) << "145 KiB do not fit";
  }
}

/// Counted by hand: FlashAttention-2's form reads 5120 lines of 128 bytes at head_dim 128, where a
/// warp that owns 16 keys reads 8064.
TEST(AttentionBackwardSpace, CountsWhatAStepMovesThroughSharedMemory) {
  const auto lines_of = [](const backward::KeyTiles& tiles) {
    return key_step_smem_bytes(backward::key_pass_config(tiles, DType::bf16, true, DqSum::atomic,
                                                         true, QOrder::cyclic, Persistence::grid)) /
           128;
  };
  EXPECT_EQ(lines_of({128, 128, 64, 128, 8, 32, 2, 2}), 5120);
  EXPECT_EQ(2 * lines_of({128, 128, 32, 128, 8, 16, 1, 1}), 8064);
  EXPECT_EQ(lines_of({64, 64, 64, 128, 4, 16, 1, 1}), 2816);
  EXPECT_EQ(lines_of({256, 256, 32, 64, 8, 16, 2, 1}), 4032);
}

long long workspace_of(const P& problem, const V& variant) {
  return launch_geometry(problem, variant, 132, 1).partials_bytes;
}

/// Stated before the call, and bounded: twice the keys need no more where no part leaves sums.
TEST(AttentionBackwardLaunch, TheWorkspaceGrowsWithRowsAlone) {
  const P longer_keys = with(kTraining, [](P& p) { p.seq_kv *= 2; });
  const P longer = with(kTraining, [](P& p) {
    p.seq_q *= 2;
    p.seq_kv *= 2;
  });
  for (const V& variant : {V{}, V{.dq_sum = DqSum::ordered}, kTwoPass}) {
    EXPECT_EQ(workspace_of(kTraining, variant), workspace_of(longer_keys, variant));
    EXPECT_LE(workspace_of(longer, variant), 2 * workspace_of(kTraining, variant));
  }
  const long long pairs = 8LL * 2 * 16 * 4096;
  EXPECT_EQ(workspace_of(kTraining, kTwoPass), pairs);
  EXPECT_EQ(workspace_of(kTraining, V{}), pairs + 4LL * 2 * 16 * 4096 * 128);
  EXPECT_EQ(workspace_of(kTraining, V{.parts = 2}),
            workspace_of(kTraining, V{}) + 2LL * 4 * 2 * 4 * 4096 * 256);
}

TEST(AttentionBackwardLaunch, CallsLaunchTheKernelsOfTheirForm) {
  const AttentionBackwardParams sizes = sizes_of(kTraining);
  const auto geometry = [&](const V& variant) {
    return attention_backward_geometry(plan_of(kTraining, variant, 132, 1), sizes);
  };
  const AttentionBackwardGeometry atomic = geometry({});
  EXPECT_EQ(atomic.key_pass.grid_x, 2 * 4 * 64);
  EXPECT_EQ(atomic.prepare.grid_x, 2 * 16 * 64);
  EXPECT_EQ(atomic.finish.grid_x, 2 * 16 * 64);
  EXPECT_EQ(atomic.query_pass.grid_x, 0);
  EXPECT_EQ(geometry({.dq_sum = DqSum::ordered}).finish.grid_x, 0);
  const AttentionBackwardGeometry two_pass = geometry(kTwoPass);
  EXPECT_EQ(two_pass.prepare.grid_x, 0);
  EXPECT_EQ(two_pass.query_pass.grid_x, 2 * 16 * 64);
  EXPECT_EQ(two_pass.finish.grid_x, 0);
  EXPECT_EQ(launch_geometry(kTraining, V{.persistence = Persistence::persistent}, 132, 2).grid_x,
            264);
}

TEST(AttentionBackwardLaunch, ChoicesOfTheLaunchShareAKernel) {
  const Generator generator({});
  V other;
  other.workers = 132;
  other.swizzle = AttentionSwizzle::head_sections;
  other.section_heads = 4;
  other.parts = 2;
  other.last_kv_first = true;
  EXPECT_EQ(generator.config_header(kTraining, V{}), generator.config_header(kTraining, other));
  EXPECT_EQ(attention_backward_operation().without_launch_choices(other), Variant(V{}));
  other = V{};
  other.rows_at_once = 32;
  EXPECT_NE(generator.config_header(kTraining, V{}), generator.config_header(kTraining, other));
}

/// The kernels of a chip for one head_dim, in each form that its default has.
void expect_defaults_compile_clean(int sm_arch, int head_dim, int head_dim_v, bool deterministic) {
  const Generator generator({});
  const P problem = with(kTraining, &P::head_dim, head_dim, &P::head_dim_v, head_dim_v,
                         &P::deterministic, deterministic);
  const Variant variant = default_variant(Problem(problem), device_of(sm_arch));
  const CompiledKernel kernel = generator.compile(problem, variant, sm_arch);
  EXPECT_EQ(kernel.entry, kBackwardKeyPass);
  EXPECT_EQ(kernel.further_entries,
            (std::vector<std::string>{kBackwardFurther.begin(), kBackwardFurther.end()}));
  EXPECT_EQ(kernel.may_overlap, sm_arch >= 90);
  const auto broken = check_compiled(problem, variant, device_of(sm_arch), kernel.resources);
  EXPECT_FALSE(broken) << to_key(variant) << " sm_" << sm_arch << ": " << broken->reason;
}

TEST(AttentionBackwardKernel, DefaultsCompileCleanForFiveChips) {
  expect_defaults_compile_clean(80, 128, 128, false);
  expect_defaults_compile_clean(80, 64, 64, false);
  expect_defaults_compile_clean(86, 96, 96, false);
  expect_defaults_compile_clean(90, 64, 64, true);
  expect_defaults_compile_clean(90, 128, 128, true);
  expect_defaults_compile_clean(120, 192, 128, false);
  expect_defaults_compile_clean(121, 256, 256, true);
  expect_defaults_compile_clean(121, 112, 112, false);
}

/// It waits for memory alone, so that CTAs of 1024 threads should fit an SM, whatever it adds.
TEST(AttentionBackwardKernel, FinishLeavesRegistersForManyCtas) {
  const P problem = with(kTraining, [](P& p) { p.heads_kv = p.heads_q; });
  const Variant variant = default_variant(Problem(problem), device_of(80));
  const TempDirectory overlay;
  overlay.write("selected_attention_backward_config.h", config_header_of(problem, variant.as<V>()));
  const CompiledKernel finish =
      Generator({.template_overlay = overlay.path(), .cache_dir = {}, .nvrtc_library = {}})
          .compile_template("attention_backward/portable/attention_backward.cu",
                            "swr_attention_backward_finish", 80);
  EXPECT_LE(finish.resources.registers_per_thread, 64);
}

TEST(AttentionBackwardKernel, TheReferenceCompiles) {
  const Generator generator({});
  EXPECT_GT(generator
                .compile_template("reference/attention_backward_reference.cu",
                                  "swr_backward_reference_rows", 90)
                .cubin.size(),
            0U);
}

class AttentionBackwardModel : public ::testing::Test {
 protected:
  Prediction predict(const P& problem, const V& variant) const {
    return model_->predict(problem, variant, {}, 1);
  }
  static double tflops(const P& problem, const Prediction& prediction) {
    return flop_count(Problem(problem)) / prediction.time_us / 1e6;
  }

  const std::unique_ptr<Predictor> model_ =
      attention_backward_operation().model()->make_predictor(load_profile("h200"));
  const P long_ = with(kTraining, &P::batch, 1, &P::heads_kv, 16, &P::seq_q, 16384, &P::seq_kv,
                       16384, &P::causal, false);
  /// As measured (experiments/attention_backward, "Portable family").
  const V atomic_{.tile_m = 32, .tile_n = 128, .warps = 8, .wide_adds = true};
};

TEST_F(AttentionBackwardModel, IsNearTheRatesMeasuredOnAnH200) {
  EXPECT_NEAR(tflops(long_, predict(long_, atomic_)), 230.0, 30.0);
  V two_pass = kTwoPass;
  two_pass.tile_m = 32;
  two_pass.tile_n = 128;
  two_pass.warps = 8;
  two_pass.query_tile_m = 128;
  two_pass.query_warps = 8;
  two_pass.keys_at_once = 32;
  EXPECT_NEAR(tflops(long_, predict(long_, two_pass)), 167.0, 30.0);
  V ordered = atomic_;
  ordered.dq_sum = DqSum::ordered;
  ordered.wide_adds = false;
  EXPECT_NEAR(tflops(long_, predict(long_, ordered)), 137.0, 30.0);
}

/// experiments/attention_backward/portable_tiles.md, 4 x 4096 and 16 heads, on an H100.
TEST_F(AttentionBackwardModel, IsNearTheRatesMeasuredOnAnH100) {
  const std::unique_ptr<Predictor> model =
      attention_backward_operation().model()->make_predictor(load_profile("h100"));
  const auto rate = [&](const backward::KeyTiles& tiles, int ctas_per_sm) {
    const P problem = with(long_, &P::batch, 4, &P::seq_q, 4096, &P::seq_kv, 4096, &P::head_dim,
                           tiles.head_dim, &P::head_dim_v, tiles.value_dim);
    const V variant{.tile_m = tiles.tile_m,
                    .tile_n = tiles.tile_n,
                    .warps = tiles.warps,
                    .rows_at_once = tiles.rows_at_once,
                    .column_groups = tiles.column_groups,
                    .stages = tiles.stages,
                    .wide_adds = true};
    return tflops(problem, model->predict(problem, variant, {}, ctas_per_sm));
  };
  EXPECT_NEAR(rate({64, 64, 64, 128, 4, 16, 1, 1}, 2), 303.0, 30.0);
  EXPECT_NEAR(rate({64, 64, 64, 128, 8, 32, 1, 2}, 1), 234.0, 30.0);
  EXPECT_NEAR(rate({96, 96, 64, 64, 4, 32, 2, 1}, 2), 279.0, 40.0);
  EXPECT_NEAR(rate({128, 128, 64, 128, 8, 32, 2, 2}, 1), 299.0, 30.0);
  EXPECT_NEAR(rate({192, 128, 64, 64, 8, 16, 4, 1}, 1), 226.0, 30.0);
  EXPECT_NEAR(rate({256, 256, 64, 64, 8, 16, 4, 1}, 1), 254.0, 30.0);
  EXPECT_NEAR(rate({256, 256, 32, 64, 8, 16, 2, 1}, 1), 200.0, 30.0);
}

TEST_F(AttentionBackwardModel, RanksFormsAsMeasured) {
  const P causal = with(long_, &P::causal, true);
  V ordered = atomic_;
  ordered.dq_sum = DqSum::ordered;
  ordered.wide_adds = false;
  V two_pass = atomic_;
  two_pass.form = BackwardForm::two_pass;
  two_pass.dq_sum = DqSum::none;
  two_pass.wide_adds = false;
  two_pass.query_tile_m = 128;
  two_pass.query_warps = 8;
  two_pass.keys_at_once = 32;
  const double atomic_us = predict(causal, atomic_).time_us;
  EXPECT_LT(atomic_us, predict(causal, two_pass).time_us);
  EXPECT_LT(predict(causal, two_pass).time_us, predict(causal, ordered).time_us);
}

TEST_F(AttentionBackwardModel, SawtoothMissesLessWhereAHeadExceedsL2) {
  const P longer = with(long_, &P::seq_q, 131072, &P::seq_kv, 131072);
  V sawtooth = atomic_;
  sawtooth.persistence = Persistence::persistent;
  const Prediction cyclic = predict(longer, sawtooth);
  sawtooth.order = QOrder::sawtooth;
  const Prediction flipped = predict(longer, sawtooth);
  EXPECT_LT(flipped.excess_misses, cyclic.excess_misses);
  EXPECT_EQ(flipped.compulsory_misses, cyclic.compulsory_misses);
}

}  // namespace
}  // namespace swr
