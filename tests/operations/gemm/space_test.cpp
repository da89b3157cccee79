// SPDX-License-Identifier: MIT
// The default space of GEMM, by the constraints alone.
#include "core/operation.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

namespace swr {
namespace {

DeviceInfo h200() {
  return {.name = "Hopper",
          .sm_arch = 90,
          .sm_count = 132,
          .l2_bytes = 60LL << 20,
          .dram_gb_per_s = 4800.0,
          .smem_per_cta_bytes = 232448,
          .smem_per_sm_bytes = 233472,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

DeviceInfo gb10() {
  return with(h200(), &DeviceInfo::sm_arch, 121, &DeviceInfo::sm_count, 48,
              &DeviceInfo::smem_per_cta_bytes, 101376, &DeviceInfo::smem_per_sm_bytes, 102400,
              &DeviceInfo::max_threads_per_sm, 1536);
}

GemmProblem product(int m, int n, int k) { return {.m = m, .n = n, .k = k}; }

GemmProblem odd_product(int m, int n, int k) {
  return with(product(m, n, k), &GemmProblem::alignment_bytes, 2);
}

GemmProblem grouped(GemmGroups groups, int m) {
  return with(product(m, 4096, 7168), &GemmProblem::batch, 8, &GemmProblem::groups, groups);
}

bool any(const SearchSpace& space, bool (*predicate)(const GemmVariant&)) {
  return std::ranges::any_of(
      space.variants, [&](const Variant& variant) { return predicate(variant.as<GemmVariant>()); });
}

GemmProblem fp8_projection(Scaling scaling, Accuracy accuracy) {
  return with(product(4096, 16384, 2560), &GemmProblem::dtype, DType::e4m3, &GemmProblem::scaling,
              scaling, &GemmProblem::accuracy, accuracy);
}

TEST(GemmSpace, Fp8HasKernelsOfBothFamiliesForEveryRecipe) {
  for (GemmProblem problem : {fp8_projection(Scaling::tensor, Accuracy::fast),
                              fp8_projection(Scaling::row, Accuracy::two_level),
                              fp8_projection(Scaling::block, Accuracy::two_level)}) {
    for (const bool gated : {false, true}) {
      for (const OutputType output : {OutputType::bf16, OutputType::fp8}) {
        problem.gated = gated;
        problem.output = output;
        problem.output_scaling = output == OutputType::fp8 ? Scaling::block : Scaling::none;
        if (gated && output == OutputType::fp8 && problem.accuracy == Accuracy::two_level) {
          continue;  // No thread has registers for 256 columns of sums and of their parts.
        }
        const SearchSpace space = enumerate_space(problem, h200(), {});
        EXPECT_TRUE(any(space, [](const GemmVariant& v) { return v.family == Family::hopper; }))
            << to_string(problem);
        if (gated && output == OutputType::fp8) {
          continue;  // No portable warp holds 128 columns of a gate and as many of its product.
        }
        EXPECT_TRUE(any(space, [](const GemmVariant& v) { return v.family == Family::portable; }))
            << to_string(problem);
        EXPECT_FALSE(enumerate_space(problem, gb10(), {}).variants.empty()) << to_string(problem);
      }
    }
  }
}

TEST(GemmSpace, ClosedFormsChooseLegalKernelsForFp8AndItsNeighboursAreValid) {
  for (const DeviceInfo& device : {h200(), gb10()}) {
    for (const int m : {1, 64, 1000, 8192}) {
      for (GemmProblem problem : {fp8_projection(Scaling::tensor, Accuracy::fast),
                                  fp8_projection(Scaling::row, Accuracy::two_level),
                                  fp8_projection(Scaling::block, Accuracy::two_level)}) {
        problem.m = m;
        const Operation& operation = gemm_operation();
        const std::optional<Variant> chosen = operation.modelled_variant(problem, device);
        ASSERT_TRUE(chosen);
        EXPECT_FALSE(check_constraints(problem, *chosen, device)) << to_string(problem);
        for (int index = 0;; ++index) {
          const auto near = operation.near_kind(problem, index);
          if (!near) {
            break;
          }
          EXPECT_NO_THROW(validate(*near));
        }
      }
    }
  }
}

TEST(GemmSpace, EveryVariantIsLegalAndAppearsOnce) {
  for (const GemmProblem& problem :
       {product(4096, 4096, 4096), product(1, 4096, 14336), product(1000, 1000, 1000),
        product(1, 1, 1), product(17, 33, 65), odd_product(1, 1, 1), odd_product(4737, 1063, 4259),
        fp8_projection(Scaling::row, Accuracy::two_level),
        fp8_projection(Scaling::block, Accuracy::two_level), grouped(GemmGroups::offsets, 1024),
        grouped(GemmGroups::contiguous, 64), grouped(GemmGroups::masked, 4)}) {
    for (const DeviceInfo& device : {h200(), gb10()}) {
      const SearchSpace space = enumerate_space(problem, device, {});
      ASSERT_FALSE(space.variants.empty()) << to_string(problem);
      std::set<std::string> keys;
      for (const Variant& variant : space.variants) {
        EXPECT_FALSE(check_constraints(problem, variant, device)) << to_key(variant);
        EXPECT_TRUE(keys.insert(to_key(variant)).second) << to_key(variant);
      }
      EXPECT_LT(space.variants.size(), 2000U) << to_string(problem);
    }
  }
}

TEST(GemmSpace, HopperIsForHopperAlone) {
  const auto is_hopper = [](const GemmVariant& v) { return v.family == Family::hopper; };
  EXPECT_TRUE(any(enumerate_space(product(4096, 4096, 4096), h200(), {}), is_hopper));
  EXPECT_FALSE(any(enumerate_space(product(4096, 4096, 4096), gb10(), {}), is_hopper));
}

TEST(GemmSpace, OddRowsHaveKernelsOfBothFamilies) {
  const GemmProblem problem = odd_product(4737, 1063, 4259);
  const SearchSpace space = enumerate_space(problem, h200(), {});
  EXPECT_TRUE(any(space, [](const GemmVariant& v) { return v.family == Family::hopper; }));
  EXPECT_TRUE(any(space, [](const GemmVariant& v) { return v.family == Family::portable; }));
  const std::optional<Variant> chosen = gemm_operation().modelled_variant(problem, h200());
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->as<GemmVariant>().family, Family::hopper) << "copies pay for many products";
}

TEST(GemmSpace, OffersSplitsWhereTilesAreFewAndOrdersWhereTheyAreMany) {
  const auto splits = [](const GemmVariant& v) { return v.splits > 1; };
  const auto ordered = [](const GemmVariant& v) { return v.raster != Raster::along_m; };
  const SearchSpace few = enumerate_space(product(16, 4096, 14336), h200(), {});
  EXPECT_TRUE(any(few, splits));
  const SearchSpace many = enumerate_space(product(8192, 8192, 8192), h200(), {});
  EXPECT_FALSE(any(many, splits));
  EXPECT_TRUE(any(many, ordered));
}

TEST(GemmSpace, TheClosedFormLeavesRoomForClustersOfFourAndStoresThroughTheCopyEngine) {
  const auto chosen = [](const GemmProblem& problem) {
    return gemm_operation().modelled_variant(problem, h200())->as<GemmVariant>();
  };
  // 32 clusters took two rounds on an H200, 30 one.
  const GemmVariant four = chosen(product(1024, 2112, 7168));
  const int tiles = 1024 / four.tile_m * ((2112 + four.tile_n - 1) / four.tile_n);
  EXPECT_TRUE(four.cluster_m * four.cluster_n < 4 || tiles <= 120) << four.tile_n;
  EXPECT_EQ(chosen(product(5416, 7128, 16)).family, Family::hopper) << "C is all there is";
}

TEST(GemmSpace, FillsSmsWithPartsOfKThatWaitForLoads) {
  // 45 tiles: eight parts of each are two or three CTAs of every SM.
  const auto in_eight = [](const GemmVariant& v) {
    return v.family == Family::portable && v.tile_m == 32 && v.tile_n == 64 && v.splits == 8;
  };
  EXPECT_TRUE(any(enumerate_space(odd_product(24, 2862, 8092), h200(), {}), in_eight));
  EXPECT_FALSE(any(enumerate_space(product(24, 2864, 8096), h200(), {}), in_eight));
}

TEST(GemmSpace, OffersWidthsThatFillRoundsAndFoursWhereOneRoundHoldsAllTiles) {
  // 24 rows of 128 times 5 columns of 200 are one round; 8 of 128 times 15 of 144 are another.
  const auto fitted = [](const GemmVariant& v) { return v.tile_m == 128 && v.tile_n == 200; };
  EXPECT_TRUE(any(enumerate_space(product(3000, 1000, 7000), h200(), {}), fitted));
  const auto fours = [](const GemmVariant& v) { return v.cluster_m == 4 || v.cluster_n == 4; };
  EXPECT_TRUE(any(enumerate_space(product(1024, 2112, 7168), h200(), {}), fours));
  EXPECT_FALSE(any(enumerate_space(product(8192, 8192, 8192), h200(), {}), fours));
  const auto three = [](const GemmVariant& v) { return v.consumers == 3; };
  EXPECT_TRUE(any(enumerate_space(product(4096, 4096, 4096), h200(), {}), three));
}

TEST(GemmSpace, OffersClustersAlongKWhereTilesAreFew) {
  const auto clustered = [](const GemmVariant& v) { return v.cluster_k > 1; };
  const auto of_two_consumers = [](const GemmVariant& v) {
    return v.cluster_k > 1 && v.consumers == 2;
  };
  EXPECT_TRUE(any(enumerate_space(product(64, 2112, 7168), h200(), {}), clustered));
  EXPECT_TRUE(any(enumerate_space(product(512, 2112, 7168), h200(), {}), of_two_consumers));
  EXPECT_FALSE(any(enumerate_space(product(8192, 8192, 8192), h200(), {}), clustered));
  EXPECT_FALSE(any(enumerate_space(product(64, 2112, 200), h200(), {}), clustered)) << "short k";
  EXPECT_FALSE(any(enumerate_space(product(64, 2112, 7168), gb10(), {}), clustered));
}

TEST(GemmSpace, ARestrictedAxisTakesItsValuesInstead) {
  SpaceOptions options;
  options.tiles = {{.tile_m = 128, .tile_n = 128}};
  options.restrictions = {{"family", {std::string("hopper")}},
                          {"stages", {3LL}},
                          {"k_order", {std::string("cyclic"), std::string("sawtooth")}},
                          {"raster", {std::string("along_n")}},
                          {"swizzle_stride", {0LL, 512LL, 1024LL}}};
  const SearchSpace space = enumerate_space(product(4096, 4096, 4096), h200(), options);
  std::set<int> strides;
  for (const Variant& variant : space.variants) {
    const auto& gemm = variant.as<GemmVariant>();
    EXPECT_EQ(gemm.tile_m, 128);
    EXPECT_EQ(gemm.tile_n, 128);
    EXPECT_EQ(gemm.stages, 3);
    EXPECT_EQ(gemm.raster, Raster::along_n);
    strides.insert(gemm.swizzle_stride);
  }
  EXPECT_EQ(strides, (std::set<int>{0, 512, 1024}));
  EXPECT_TRUE(any(space, [](const GemmVariant& v) { return v.k_order == Order::sawtooth; }));
}

TEST(GemmSpace, WrongRestrictionsAreRefused) {
  const auto space_of = [](const SpaceOptions& options) {
    enumerate_space(product(4096, 4096, 4096), h200(), options);
  };
  SpaceOptions attention_axis;
  attention_axis.restrictions["order"] = {std::string("cyclic")};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { space_of(attention_axis); }),
              HasSubstr("k_order"));
  SpaceOptions with_warps{.tiles = {{.tile_m = 64, .tile_n = 64, .warps = 4}}};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { space_of(with_warps); }),
              HasSubstr("--warps-m"));
}

TEST(GemmSpace, AVariantOfAnotherOperationIsRefused) {
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument,
                 [] { check_constraints(product(64, 64, 64), AttentionVariant{}, h200()); }),
      HasSubstr("cannot compute gemm"));
}

}  // namespace
}  // namespace swr
