// SPDX-License-Identifier: MIT
#include "core/json.h"
#include "core/operation.h"
#include "operations/gemm/group_places.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/variant.h>

namespace swr {
namespace {

DeviceInfo device_of(int sm_arch) {
  return {.name = "Fictional",
          .sm_arch = sm_arch,
          .sm_count = 132,
          .smem_per_cta_bytes = sm_arch == 90 ? 232448 : 101376,
          .smem_per_sm_bytes = sm_arch == 90 ? 233472 : 102400,
          .smem_reserved_per_cta_bytes = 1024,
          .registers_per_sm = 65536,
          .max_threads_per_sm = 2048,
          .max_ctas_per_sm = 32};
}

GemmProblem problem_of(int m, int n, int k) { return {.m = m, .n = n, .k = k}; }

GemmVariant hopper() {
  return {.family = Family::hopper,
          .tile_m = 128,
          .tile_n = 256,
          .tile_k = 64,
          .stages = 4,
          .consumers = 2,
          .persistence = Persistence::persistent};
}

std::string constraint_of(const GemmVariant& variant, int sm_arch = 90,
                          const GemmProblem& problem = problem_of(4096, 4096, 4096)) {
  const auto dropped = check_constraints(problem, variant, device_of(sm_arch));
  return dropped ? dropped->constraint : "";
}

TEST(GemmConstraints, LetLegalVariantsPass) {
  EXPECT_EQ(constraint_of(hopper()), "");
  EXPECT_EQ(constraint_of({}, 121), "");
  EXPECT_EQ(constraint_of({}, 80, problem_of(1, 1, 1)), "");
}

/// The Hopper variant with other values of some axes, "tile_m=96,splits=2".
GemmVariant hopper_with(std::string_view axes) {
  Variant variant = hopper();
  while (!axes.empty()) {
    const std::string_view one = axes.substr(0, axes.find(','));
    const std::size_t equal = one.find('=');
    axis_named(gemm_operation(), one.substr(0, equal))
        .set(variant, std::string(one.substr(equal + 1)));
    axes.remove_prefix(std::min(axes.size(), one.size() + 1));
  }
  return variant.as<GemmVariant>();
}

TEST(GemmConstraints, NameTheRuleThatAVariantBreaks) {
  for (const auto& [constraint, axes] : std::vector<std::pair<std::string, std::string>>{
           {"tile_shape", "tile_m=96"},
           {"tile_shape", "tile_n=100"},
           {"tile_shape", "tile_k=32"},
           {"consumers", "mainloop=pingpong,consumers=1"},
           {"cluster", "cluster_m=2,cluster_n=2"},
           {"cluster", "cluster_k=2"},
           {"cluster", "persistence=grid,cluster_k=2,cluster_n=2"},
           {"cluster", "persistence=grid,cluster_k=2,splits=2"},
           {"cluster", "tile_m=64,persistence=grid,mainloop=pingpong,cluster_k=2"},
           {"shared_memory", "stages=5"},
           {"registers", "tile_m=256,stages=2"},
           {"worker_count", "persistence=grid,workers=7"},
           {"local_iterations", "persistence=grid,k_order=sawtooth"},
           {"raster", "raster_group=8"},
           {"raster", "swizzle_stride=512"},
           {"raster", "raster=hilbert,swizzle_stride=4096"},
           {"raster", "raster=serpentine,raster_group=32"}}) {
    EXPECT_EQ(constraint_of(hopper_with(axes)), constraint) << axes;
  }
  // What no axis has.
  GemmVariant variant = hopper();
  variant.warps_m = 4;
  EXPECT_EQ(constraint_of(variant), "family_axes");
  variant = hopper();
  variant.persistence = Persistence::snake;
  EXPECT_EQ(constraint_of(variant), "persistence");
  variant = hopper();
  variant.splits = 65;
  EXPECT_EQ(constraint_of(variant), "splits");
  EXPECT_EQ(constraint_of(hopper(), 120), "architecture");
  EXPECT_EQ(constraint_of({}, 75), "architecture");
  EXPECT_EQ(constraint_of({.tile_m = 48}, 80), "tile_shape");
  EXPECT_EQ(constraint_of({.warps_m = 8, .warps_n = 8}, 80), "tile_shape");
  EXPECT_EQ(constraint_of({.tile_m = 128, .tile_n = 128, .warps_m = 8, .warps_n = 8}, 80),
            "threads");
  EXPECT_EQ(constraint_of({.tile_m = 256, .tile_n = 256, .stages = 2}, 80), "registers");
}

TEST(GemmConstraints, HopperTakesOddRowsOfSixteenBitTypesWithoutGroups) {
  const auto is_rejected = [](GemmProblem problem) {
    GemmVariant variant = hopper();
    variant.tile_k = 128 / element_bytes(problem.dtype);
    variant.persistence = Persistence::persistent;
    return constraint_of(variant, 90, problem) == "copy_alignment";
  };
  GemmProblem whole = problem_of(100, 512, 300);
  GemmProblem unaligned = whole;
  unaligned.alignment_bytes = 8;
  const GemmProblem short_rows = problem_of(100, 500, 300);
  for (GemmProblem problem : {unaligned, short_rows}) {
    EXPECT_FALSE(is_rejected(problem));
    problem.groups = GemmGroups::offsets;
    EXPECT_TRUE(is_rejected(problem));
    problem.groups = GemmGroups::none;
    problem.dtype = DType::e4m3;
    EXPECT_TRUE(is_rejected(problem));
  }
  GemmProblem odd_columns = problem_of(100, 501, 300);
  odd_columns.alignment_bytes = 2;
  EXPECT_FALSE(is_rejected(odd_columns));
  odd_columns.has_bias = true;
  EXPECT_FALSE(is_rejected(odd_columns)) << "a bias of an odd number of columns";
  whole.dtype = DType::e4m3;
  EXPECT_FALSE(is_rejected(whole));
}

GemmProblem fp8(Scaling scaling, Accuracy accuracy) {
  return with(problem_of(4096, 4096, 4096), &GemmProblem::dtype, DType::e4m3, &GemmProblem::scaling,
              scaling, &GemmProblem::accuracy, accuracy);
}

TEST(GemmConstraints, Fp8IsSummedAsExactlyAsAsked) {
  const GemmProblem fast = fp8(Scaling::row, Accuracy::fast);
  const GemmProblem exact = fp8(Scaling::row, Accuracy::two_level);
  const GemmProblem block = fp8(Scaling::block, Accuracy::two_level);
  GemmVariant wide = hopper();
  EXPECT_EQ(constraint_of(wide, 90, fast), "tile_shape") << "half a line";
  wide.tile_k = 128;
  EXPECT_EQ(constraint_of(wide, 90, fast), "");
  EXPECT_EQ(constraint_of(wide, 90, exact), "promotion") << "nothing is promoted";
  wide.tile_n = 192;
  wide.promote_every = 128;
  EXPECT_EQ(constraint_of(wide, 90, fast), "promotion");
  EXPECT_EQ(constraint_of(wide, 90, exact), "");
  EXPECT_EQ(constraint_of(wide, 90, block), "");
  wide.promote_every = 192;
  EXPECT_EQ(constraint_of(wide, 90, exact), "promotion") << "no whole k-blocks";
  wide.promote_every = 1024;
  EXPECT_EQ(constraint_of(wide, 90, exact), "promotion") << "more than the stages hold";
  wide.promote_every = 256;
  EXPECT_EQ(constraint_of(wide, 90, block), "promotion");
  GemmVariant portable{.tile_k = 128, .stages = 2};
  EXPECT_EQ(constraint_of(portable, 121, exact), "") << "tensor cores there sum in fp32";
  EXPECT_EQ(constraint_of(portable, 89, exact), "promotion");
  EXPECT_EQ(constraint_of(portable, 121, block), "promotion") << "blocks are scaled apart";
  EXPECT_EQ(constraint_of(portable, 86, fast), "architecture");
}

TEST(GemmConstraints, ThreadsHoldWhatTheyFinishTogether) {
  GemmProblem gated = problem_of(4096, 4096, 4096);
  gated.gated = true;
  GemmVariant variant = hopper();
  EXPECT_EQ(constraint_of(variant, 90, gated), "");
  variant.tile_n = 208;
  EXPECT_EQ(constraint_of(variant, 90, gated), "columns_of_c");
  GemmProblem scaled = problem_of(4096, 4096, 4096);
  scaled.output = OutputType::fp8;
  scaled.output_scaling = Scaling::block;
  variant.tile_n = 128;
  EXPECT_EQ(constraint_of(variant, 90, scaled), "");
  variant.tile_n = 192;
  EXPECT_EQ(constraint_of(variant, 90, scaled), "columns_of_c");
  EXPECT_EQ(constraint_of({.tile_n = 128, .warps_m = 4, .warps_n = 1}, 121, scaled), "");
  EXPECT_EQ(constraint_of({.tile_n = 128}, 121, scaled), "columns_of_c") << "two warps share them";
}

TEST(GemmProblem, NamesWhatNoKernelServes) {
  const auto message = [](const std::function<void(GemmProblem&)>& change) {
    GemmProblem problem = fp8(Scaling::row, Accuracy::fast);
    change(problem);
    try {
      validate(problem);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using testing::HasSubstr;
  EXPECT_EQ(message([](GemmProblem&) {}), "");
  EXPECT_THAT(message([](GemmProblem& p) { p.dtype = DType::bf16; }), HasSubstr("scaling at none"));
  EXPECT_THAT(message([](GemmProblem& p) { p.layout = GemmLayout::nn; }), HasSubstr("layout nt"));
  EXPECT_THAT(message([](GemmProblem& p) { p.alignment_bytes = 2; }), HasSubstr("4 bytes"));
  EXPECT_THAT(message([](GemmProblem& p) { p.scaling = Scaling::block; }), HasSubstr("two_level"));
  EXPECT_THAT(message([](GemmProblem& p) { p.batch = 2; }), HasSubstr("batch 1"));
  const auto in_groups = [&](GemmGroups groups) {
    return message([&](GemmProblem& p) {
      p = fp8(Scaling::block, Accuracy::two_level);
      p.batch = 2;
      p.groups = groups;
    });
  };
  EXPECT_EQ(in_groups(GemmGroups::contiguous), "");
  EXPECT_EQ(in_groups(GemmGroups::masked), "");
  EXPECT_THAT(in_groups(GemmGroups::offsets), HasSubstr("contiguous or masked"));
  EXPECT_THAT(message([](GemmProblem& p) { p.output = OutputType::fp8; }),
              HasSubstr("output_scaling"));
  EXPECT_THAT(message([](GemmProblem& p) {
                p.output = OutputType::fp8;
                p.output_scaling = Scaling::block;
                p.n = 4000;
              }),
              HasSubstr("multiples of 128"));
}

TEST(GemmProblem, WhatCameLaterIsWrittenWhereItIsNotAsBefore) {
  GemmProblem old = problem_of(1, 2, 3);
  EXPECT_EQ(to_string(old), "gemm b1 m1 n2 k3 bf16 nt bf16");
  old.reads_c = true;
  old.alignment_bytes = 4;
  old.layout = GemmLayout::tn;
  old.output = OutputType::fp32;
  EXPECT_EQ(to_string(old), "gemm b1 m1 n2 k3 bf16 tn fp32 beta align4");
  EXPECT_EQ(flop_count(old), 12.0);
  GemmProblem problem = fp8(Scaling::block, Accuracy::two_level);
  problem.has_bias = true;
  problem.activation = Activation::silu;
  EXPECT_EQ(to_string(problem),
            "gemm b1 m4096 n4096 k4096 e4m3 nt bf16 scale_block two_level bias silu");
  const Json plain = Problem(problem_of(1, 2, 3));
  EXPECT_FALSE(plain.contains("scaling") || plain.contains("groups") || plain.contains("skewed"));
  EXPECT_EQ(plain.get<Problem>(), Problem(problem_of(1, 2, 3)));
  const Json fused = Problem(problem);
  EXPECT_EQ(fused.at("activation"), "silu");
  EXPECT_EQ(fused.get<Problem>(), Problem(problem));
}

TEST(GemmConstraints, EveryCtaOfAClusterAlongKHasAKBlock) {
  GemmVariant variant = hopper();
  variant.persistence = Persistence::grid;
  variant.cluster_k = 4;
  EXPECT_EQ(constraint_of(variant, 90, problem_of(512, 512, 200)), "");
  EXPECT_EQ(constraint_of(variant, 90, problem_of(512, 512, 192)), "splits") << "three k-blocks";
}

TEST(GemmConstraints, AreNamedOnceEach) {
  std::set<std::string_view> names;
  for (const ConstraintInfo& info : constraints(gemm_operation())) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty());
  }
}

TEST(GemmConstraints, TheCompilersVerdictIsLast) {
  const auto verdict = [](const KernelResources& resources) {
    const auto dropped =
        check_compiled(problem_of(4096, 4096, 4096), hopper(), device_of(90), resources);
    return dropped ? dropped->constraint : "";
  };
  EXPECT_EQ(verdict({.registers_per_thread = 168}), "");
  EXPECT_EQ(verdict({.registers_per_thread = 168, .spill_store_bytes = 4}), "spills");
  EXPECT_EQ(verdict({.registers_per_thread = 168, .wgmma_warnings = 1}), "serialized_wgmma");
  EXPECT_EQ(verdict({.registers_per_thread = 255}), "residency");
}

TEST(GemmVariant, KeysAreReadBack) {
  GemmVariant variant = hopper();
  variant.mainloop = GemmMainloop::pingpong;
  variant.raster = Raster::serpentine;
  variant.raster_group = 8;
  variant.swizzle_stride = 1792;
  variant.k_order = Order::sawtooth;
  variant.splits = 3;
  EXPECT_EQ(parse_variant(gemm_operation(), to_key(variant)), Variant(variant));
  variant.cluster_k = 3;
  EXPECT_EQ(parse_variant(gemm_operation(), to_key(variant)), Variant(variant));
  EXPECT_EQ(parse_variant(gemm_operation(), to_key(GemmVariant{})), default_axes(gemm_operation()));
  EXPECT_THAT(to_key(variant), testing::HasSubstr("mainloop=pingpong"));
  EXPECT_THAT(to_key(GemmVariant{}), testing::Not(testing::HasSubstr("mainloop")));
}

TEST(GemmVariant, WrongKeysAreRefused) {
  for (const char* key : {"tile_m", "tile_m=ten", "tile_m=8", "raster=zigzag", "colour=red",
                          "family=portable,consumers=2"}) {
    EXPECT_THROW(parse_variant(gemm_operation(), key), Error) << key;
  }
}

TEST(GemmProblem, IsValidated) {
  EXPECT_NO_THROW(validate(problem_of(1, 1, 1)));
  EXPECT_THROW(validate(problem_of(0, 1, 1)), Error);
  EXPECT_THROW(validate(problem_of(1, 1 << 25, 1)), Error);
  GemmProblem odd = problem_of(1, 1, 1);
  odd.alignment_bytes = 3;
  EXPECT_THROW(validate(odd), Error);
  odd.alignment_bytes = 2;
  EXPECT_NO_THROW(validate(odd));
  odd.output = OutputType::fp32;
  EXPECT_THROW(validate(odd), Error);
}

GemmProblem grouped(GemmGroups groups) {
  return with(problem_of(1024, 4096, 4096), &GemmProblem::batch, 8, &GemmProblem::groups, groups);
}

TEST(GemmConstraints, GroupsTakePersistentKernelsWithoutPartsOfK) {
  const GemmProblem offsets = grouped(GemmGroups::offsets);
  EXPECT_EQ(constraint_of(hopper(), 90, offsets), "");
  GemmVariant grid = hopper();
  grid.persistence = Persistence::grid;
  EXPECT_EQ(constraint_of(grid, 90, offsets), "groups");
  GemmVariant split = hopper();
  split.splits = 2;
  EXPECT_EQ(constraint_of(split, 90, offsets), "groups");
  GemmVariant pair = hopper();
  pair.cluster_m = 2;
  EXPECT_EQ(constraint_of(pair, 90, grouped(GemmGroups::masked)), "");
  EXPECT_EQ(constraint_of(pair, 90, grouped(GemmGroups::contiguous)), "groups")
      << "256 rows of a cluster do not divide a run of 128";
  EXPECT_EQ(constraint_of(default_variant(offsets, device_of(90)).as<GemmVariant>(), 90, offsets),
            "");
}

TEST(GemmProblem, GroupsAreValidated) {
  GemmProblem problem = grouped(GemmGroups::offsets);
  problem.skewed = true;
  EXPECT_NO_THROW(validate(problem));
  EXPECT_EQ(to_string(problem), "gemm b8 m1024 n4096 k4096 bf16 nt bf16 offsets skewed");
  EXPECT_EQ(Json(Problem(problem)).get<Problem>(), Problem(problem));
  for (const auto& spoil : std::vector<std::function<void(GemmProblem&)>>{
           [](GemmProblem& p) { p.layout = GemmLayout::tn; },
           [](GemmProblem& p) { p.reads_c = true; }, [](GemmProblem& p) { p.batch = 513; },
           [](GemmProblem& p) { p.groups = GemmGroups::none; }}) {
    GemmProblem spoilt = problem;
    spoil(spoilt);
    EXPECT_THROW(validate(spoilt), Error) << to_string(spoilt);
  }
}

TEST(GroupPlaces, DrawnRowsAddUpToTheAverage) {
  for (const int batch : {1, 2, 3, 8, 64}) {
    for (const bool skewed : {false, true}) {
      GemmProblem problem = grouped(GemmGroups::offsets);
      problem.batch = batch;
      problem.skewed = skewed;
      for (unsigned long long seed = 1; seed < 20; ++seed) {
        const std::vector<int> rows = drawn_group_rows(problem, seed);
        const int most = *std::ranges::max_element(rows);
        EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), 1024 * batch);
        EXPECT_GE(*std::ranges::min_element(rows), 0);
        if (skewed && batch > 2) {
          EXPECT_NEAR(most, 512 * batch, batch);
          EXPECT_EQ(std::ranges::count(rows, 0), (batch + 2) / 4) << batch;
        } else if (!skewed) {
          EXPECT_LT(most, 1024 * 1.3 / 0.7);
        }
      }
    }
  }
}

}  // namespace
}  // namespace swr
