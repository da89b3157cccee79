// SPDX-License-Identifier: MIT
// The Hopper family of attention over unequal sequences: what it serves and what it leaves to the
// portable family, when it is the default, its kernels and its launches.
#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_serving/parts.h"
#include "tests/operations/attention_serving/prompt.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/generator.h>

namespace swr {
namespace {

using test::kServingPrompt;
using P = ServingAttentionProblem;
using V = ServingAttentionVariant;

constexpr V kHopper{.family = Family::hopper,
                    .tile_m = 128,
                    .tile_n = 128,
                    .warps = 8,
                    .persistence = Persistence::dynamic,
                    .deal = Deal::whole,
                    .item_order = ItemOrder::longest_first,
                    .section_heads = 32};

constexpr V kWarpgroup{
    .family = Family::hopper, .tile_m = 64, .warps = 4, .pack_gqa = true, .least_units = 8};

TEST(HopperServing, SaysWhatItLeavesToThePortableFamily) {
  const std::pair<P, std::string> left[] = {
      {with(kServingPrompt, &P::mask, ServingMask::window, &P::window, 1024, &P::head_dim, 80,
            &P::head_dim_v, 80),
       "hopper_features"},
      {with(kServingPrompt, &P::head_dim, 192), "hopper_features"},
      {with(kServingPrompt, &P::page_size, 19), "page_boxes"},
      {with(kServingPrompt, &P::page_size, 4), "page_boxes"},
      {with(kServingPrompt, &P::leftpad, true), "page_boxes"},
  };
  for (const auto& [problem, constraint] : left) {
    EXPECT_EQ(dropped_by(problem, kHopper, 90), constraint) << to_string(Problem(problem));
    const Variant usual = default_variant(Problem(problem), device_of(90));
    EXPECT_EQ(family_of(usual), Family::portable) << to_string(Problem(problem));
    EXPECT_EQ(dropped_by(problem, usual, 90), "");
  }
  const std::pair<V, std::string> dropped[] = {
      {with(kHopper, &V::tile_m, 192), "tile_shape"},
      {with(kHopper, &V::warps, 4), "tile_shape"},
      {with(kHopper, &V::tile_n, 264), "tile_shape"},
      {with(kHopper, &V::pack_gqa, true), "hopper_dealing"},
      {with(kHopper, &V::deal, Deal::ranges, &V::persistence, Persistence::grid), "tile_shape"},
      {with(kWarpgroup, &V::mainloop, Mainloop::mutex), "hopper_dealing"},
      {with(kHopper, &V::page_copy, PageCopy::run16), "family_axes"},
      {with(kHopper, &V::stages, 3), "shared_memory"},
      {with(kHopper, &V::order, Order::sawtooth), "drawing"},
      {with(kHopper, &V::tile_n, 256, &V::stages, 1), "registers"},
  };
  for (const auto& [variant, constraint] : dropped) {
    EXPECT_EQ(dropped_by(kServingPrompt, variant, 90), constraint) << to_key(variant);
  }
  EXPECT_EQ(dropped_by(kServingPrompt, kHopper, 120), "architecture");
}

TEST(HopperServing, ServesRowsPagesSinksAndPaddedRows) {
  for (const int page_size : {0, 8, 16, 24, 48, 64, 128, 256, 1016}) {
    const P problem = with(kServingPrompt, &P::page_size, page_size, &P::sinks, true);
    EXPECT_EQ(dropped_by(problem, kHopper, 90), "") << page_size;
  }
  const P padded = with(kServingPrompt, &P::page_size, 0, &P::leftpad, true);
  EXPECT_EQ(dropped_by(padded, kHopper, 90), "");
}

TEST(HopperServing, ServesWindowsAndSoftcaps) {
  for (const int page_size : {0, 16, 64}) {
    for (const Softcap softcap : {Softcap::none, Softcap::approximate, Softcap::accurate}) {
      const P problem = with(kServingPrompt, &P::mask, ServingMask::window, &P::window, 1024,
                             &P::softcap, softcap, &P::page_size, page_size);
      EXPECT_EQ(dropped_by(problem, kHopper, 90), "") << page_size;
      const V usual = with(kHopper, &V::section_heads, 1);
      EXPECT_EQ(default_variant(Problem(problem), device_of(90)), Variant(usual)) << page_size;
      const ServingFamilyConfig config = config_of(problem, kHopper);
      EXPECT_EQ(std::get<HopperServingConfig>(config).piece_rows, 16);
      EXPECT_TRUE(std::get<HopperServingConfig>(config).has_whole_boxes());
      EXPECT_GT(plan_of(problem, kHopper, 132, 1).maps.kv_panels, 0);
    }
  }
}

/// Numerators of capped scores reach 2^80 where no maximum is kept, which fp16 does not hold.
TEST(HopperServing, KeepsNoMaximumOfCappedScoresInBf16Alone) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const Softcap softcap : {Softcap::none, Softcap::approximate}) {
      const P problem = with(kServingPrompt, &P::dtype, dtype, &P::softcap, softcap);
      const ServingFamilyConfig config = config_of(problem, kHopper);
      EXPECT_EQ(std::get<HopperServingConfig>(config).dense().capped_scores,
                dtype == DType::bf16 && softcap != Softcap::none);
    }
  }
}

TEST(HopperServing, IsTheDefaultOfPromptsOnOneChip) {
  EXPECT_EQ(default_variant(Problem(kServingPrompt), device_of(90)), Variant(kHopper));
  EXPECT_EQ(family_of(default_variant(Problem(kServingPrompt), device_of(80))), Family::portable);
  EXPECT_EQ(family_of(default_variant(Problem(kServingPrompt), device_of(120))), Family::portable);
  const P decode = with(kServingPrompt, &P::seq_q, 1);
  const P others[] = {decode, with(kServingPrompt, &P::head_dim, 32, &P::head_dim_v, 32),
                      with(kServingPrompt, &P::seq_q, 64), with(kServingPrompt, &P::page_size, 8)};
  for (const P& other : others) {
    EXPECT_EQ(family_of(default_variant(Problem(other), device_of(90))), Family::portable);
  }
}

/// Where heads and queries make more than 32 rows, which one warpgroup multiplies from what it
/// reads once; fewer wait for memory as they are.
TEST(HopperServing, IsTheDefaultOfManyRowsInDecoding) {
  const P many = with(kServingPrompt, [](P& p) {
    p.seq_q = 16;
    p.heads_q = 4 * p.heads_kv;
  });
  EXPECT_EQ(default_variant(Problem(many), device_of(90)), Variant(kWarpgroup));
  EXPECT_FALSE(plan_of(many, kWarpgroup, 132, 2).maps.takes_tensor_maps());
  EXPECT_TRUE(std::get<ServingAttentionConfig>(config_of(many, kWarpgroup)).wgmma);
  const P others[] = {with(many, &P::seq_q, 8), with(many, &P::batch, 1),
                      with(many, &P::head_dim, 80, &P::head_dim_v, 80),
                      with(many, &P::head_dim_v, 64)};
  for (const P& other : others) {
    EXPECT_EQ(family_of(default_variant(Problem(other), device_of(90))), Family::portable);
  }
  EXPECT_EQ(family_of(default_variant(Problem(many), device_of(120))), Family::portable);
}

/// No spills, and products that are waited for.
TEST(HopperServing, WarpgroupsInPartsCompileClean) {
  const Generator generator({});
  for (const int head_dim : {128, 256}) {
    const P problem = with(kServingPrompt, [&](P& p) {
      p.seq_q = 16;
      p.heads_q = 4 * p.heads_kv;
      p.head_dim = p.head_dim_v = head_dim;
    });
    const V variant = default_variant(Problem(problem), device_of(90)).as<V>();
    ASSERT_EQ(variant.family, Family::hopper) << head_dim;
    const CompiledKernel kernel = generator.compile(problem, variant, 90);
    const auto broken = check_compiled(problem, variant, device_of(90), kernel.resources);
    EXPECT_FALSE(broken) << head_dim << ": " << broken->reason;
  }
}

/// Whatever the mask: the model finds it faster than the portable family's default, and than its
/// own other tiles by no less than it errs.
TEST(HopperServing, IsTheDefaultWhereTheModelFindsItFaster) {
  constexpr double kModelError = 1.1;
  const auto model = serving_attention_operation().model()->make_predictor(load_profile("h200"));
  for (const int head_dim : {64, 80, 96, 128, 192, 256}) {
    for (const ServingMask mask : {ServingMask::full, ServingMask::causal, ServingMask::window}) {
      for (const int page_size : {0, 16, 64}) {
        if (mask == ServingMask::window && head_dim == 80) {
          continue;  // Left to the portable family, above.
        }
        const P problem =
            with(kServingPrompt, &P::batch, 1, &P::seq_q, 8192, &P::seq_kv, 8192, &P::head_dim,
                 head_dim, &P::head_dim_v, head_dim, &P::mask, mask, &P::window,
                 mask == ServingMask::window ? 1023 : 0, &P::page_size, page_size);
        const Variant usual = default_variant(Problem(problem), device_of(90));
        ASSERT_EQ(family_of(usual), Family::hopper) << to_string(Problem(problem));
        const double us = model->predict(problem, usual, {}, 1).time_us;
        const Variant portable = default_variant(Problem(problem), device_of(80));
        EXPECT_LT(us, 0.8 * model->predict(problem, portable, {}, 1).time_us)
            << to_string(Problem(problem));
        for (const Variant& other : serving_attention_operation()
                                        .points(Family::hopper, problem, device_of(90), {})
                                        .listed) {
          if (!check_constraints(problem, other, device_of(90))) {
            EXPECT_LT(us, kModelError * model->predict(problem, other, {}, 1).time_us)
                << to_string(Problem(problem)) << " " << to_key(other);
          }
        }
      }
    }
  }
}

/// A third tile of K and V is held where it fits.
TEST(HopperServing, NarrowHeadsHoldThreeTiles) {
  const auto stages = [](int head_dim) {
    const P problem = with(kServingPrompt, &P::head_dim, head_dim, &P::head_dim_v, head_dim);
    return default_variant(Problem(problem), device_of(90)).as<V>().stages;
  };
  EXPECT_EQ(stages(64), 3);
  EXPECT_EQ(stages(128), 2);
}

/// Boxes divide pages and tiles, and every page of a tile has a lane.
TEST(HopperServing, PiecesDividePagesAndTiles) {
  for (const Variant& one : enumerate_space(kServingPrompt, device_of(90), {}).variants) {
    for (const int page_size : {0, 8, 16, 40, 64, 256}) {
      const P problem = with(kServingPrompt, &P::page_size, page_size);
      const auto& variant = one.as<V>();
      const ServingFamilyConfig of_family = config_of(problem, variant);
      const auto* const config = std::get_if<HopperServingConfig>(&of_family);
      if (config == nullptr || check_constraints(problem, one, device_of(90))) {
        continue;
      }
      EXPECT_EQ(variant.tile_n % config->piece_rows, 0);
      EXPECT_EQ(page_size % config->piece_rows == 0 || page_size == 0, true);
      EXPECT_LE(config->pieces(), 32);
      EXPECT_LE(config->piece_rows, 256) << "the copy engine's limit";
      EXPECT_EQ(config->list_offset() % 8, 0);
      EXPECT_EQ(config->item_offset(0) % 16, 0);
    }
  }
}

/// Every tile of the space: no spills, wgmma and setmaxnreg asynchronous.
TEST(HopperServing, TilesOfEveryHeadCompileClean) {
  const Generator generator({});
  struct Kernel {
    int head_dim;
    int page_size;
    ServingMask mask = ServingMask::causal;
    Softcap softcap = Softcap::none;
  };
  for (const auto& [head_dim, page_size, mask, softcap] :
       {Kernel{64, 0}, Kernel{128, 16}, Kernel{256, 64},
        Kernel{128, 16, ServingMask::window, Softcap::accurate},
        Kernel{192, 0, ServingMask::window}}) {
    const P problem = with(kServingPrompt, &P::head_dim, head_dim, &P::head_dim_v, head_dim,
                           &P::page_size, page_size, &P::mask, mask, &P::window,
                           mask == ServingMask::window ? 1024 : 0, &P::softcap, softcap);
    std::vector<int> compiled;
    for (const Variant& one :
         serving_attention_operation().points(Family::hopper, problem, device_of(90), {}).listed) {
      const auto& variant = one.as<V>();
      if (variant.mainloop != Mainloop::overlap_ordered ||
          std::ranges::count(compiled, variant.tile_n) != 0 ||
          (head_dim == 64 && variant.stages == 2) ||
          check_constraints(problem, one, device_of(90))) {
        continue;
      }
      compiled.push_back(variant.tile_n);
      const CompiledKernel kernel = generator.compile(problem, one, 90);
      EXPECT_TRUE(kernel.may_overlap);
      const auto broken = check_compiled(problem, one, device_of(90), kernel.resources);
      EXPECT_FALSE(broken) << head_dim << " " << to_key(one) << ": " << broken->reason;
    }
    EXPECT_FALSE(compiled.empty()) << head_dim;
  }
}

TEST(HopperServing, LaunchesFollowFromBounds) {
  const ServingLaunchPlan plan = plan_of(kServingPrompt, kHopper, 132, 1);
  EXPECT_TRUE(plan.maps.takes_tensor_maps());
  EXPECT_EQ(plan.maps.q_box.rows, 64);
  EXPECT_EQ(plan.maps.kv_box.rows, 16) << "a page";
  EXPECT_EQ(plan.maps.kv_panels, 2) << "one box a page";
  EXPECT_EQ(plan.threads, 384);
  const LaunchGeometry geometry = geometry_of(kServingPrompt, kHopper, 132, 1);
  EXPECT_EQ(geometry.grid_x, 132);
  EXPECT_EQ(geometry.partials_bytes, 0);
  EXPECT_EQ(geometry.arrival_words, 2) << "the counter";
  EXPECT_LE(geometry.dynamic_smem_bytes, smem_bytes_of(kServingPrompt, kHopper));
  V portable = default_variant(Problem(kServingPrompt), device_of(80)).as<V>();
  EXPECT_FALSE(plan_of(kServingPrompt, portable, 132, 1).maps.takes_tensor_maps());
}

/// Long Q tiles of all heads start first: one head after another, as before, left 16 heads of a
/// causal prompt's last wave half empty (experiments/vllm).
TEST(HopperServing, LongestTilesOfAllHeadsStartFirst) {
  constexpr int kCtas = 132;
  const P problem = with(kServingPrompt, &P::batch, 1, &P::heads_q, 16, &P::seq_q, 8192, &P::seq_kv,
                         8192, &P::head_dim, 256, &P::head_dim_v, 256);
  const V usual = default_variant(Problem(problem), device_of(90)).as<V>();
  const SequenceItems items{problem.heads_q, problem.seq_q / usual.tile_m};
  const MaskedSequence sequence{
      .seq_q = problem.seq_q, .seq_kv = problem.seq_kv, .mask = ServingMask::causal, .window = {}};
  std::vector<int> busy(kCtas);  // In K and V tiles: whoever is done first draws the next.
  for (long long item = 0; item < items.items(); ++item) {
    const QTile tile = item_tile(item, items, usual.section_heads, usual.item_order);
    *std::ranges::min_element(busy) +=
        kv_interval(tile.index, usual.tile_m, usual.tile_n, sequence).count();
  }
  const double mean = std::accumulate(busy.begin(), busy.end(), 0.0) / kCtas;
  EXPECT_LT(*std::ranges::max_element(busy), 1.02 * mean);
  EXPECT_EQ(usual.persistence, Persistence::dynamic);
}

TEST(HopperServing, PredictsWhatWgmmaGains) {
  const auto model = serving_attention_operation().model()->make_predictor(load_profile("h200"));
  const Variant portable = default_variant(Problem(kServingPrompt), device_of(80));
  const double hopper_us = model->predict(kServingPrompt, kHopper, {}, 1).time_us;
  const double portable_us = model->predict(kServingPrompt, portable, {}, 1).time_us;
  EXPECT_LT(hopper_us, 0.8 * portable_us);
  EXPECT_GT(hopper_us, 0.3 * portable_us);
}

}  // namespace
}  // namespace swr
