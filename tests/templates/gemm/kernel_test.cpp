// SPDX-License-Identifier: MIT
// The GEMM kernels compile for their architectures, at the corners of their axes, without spills
// and without wgmma that the compiler serialises.
#include "operations/gemm/config.h"
#include "tests/support/gemm_configs.h"
#include "tests/support/test.h"
#include <swr/gemm_problem.h>
#include <swr/generator.h>

namespace swr {
namespace {

const Generator& generator() {
  static const Generator instance({});
  return instance;
}

template <typename Config>
void expect_clean(const Config& config, int sm_arch) {
  try {
    const CompiledKernel kernel = generator().compile_configured(
        gemm_operation(), family_of(config), config_header(config), sm_arch);
    EXPECT_EQ(kernel.entry, "swr_gemm");
    EXPECT_EQ(kernel.resources.spill_store_bytes, 0) << sm_arch << "\n" << config_header(config);
    EXPECT_EQ(kernel.resources.wgmma_warnings, 0) << sm_arch << "\n" << config_header(config);
  } catch (const Error& error) {
    ADD_FAILURE() << "sm_" << sm_arch << ": " << error.what() << "\n" << config_header(config);
  }
}

constexpr HopperGemmConfig hopper(int tile_m, int tile_n, GemmMainloop mainloop, int consumers) {
  return test::hopper_gemm(tile_m, tile_n, consumers, mainloop);
}

constexpr HopperGemmConfig kHopper = test::hopper_gemm(128, 128, 2);

TEST(HopperGemmKernel, LargestAndSmallestTilesCompileClean) {
  for (const auto& [tile_m, tile_n] : {std::pair{128, 256}, {256, 128}, {256, 192}, {256, 16}}) {
    expect_clean(hopper(tile_m, tile_n, GemmMainloop::cooperative, 2), 90);
  }
  for (const auto& [tile_m, tile_n] : {std::pair{64, 256}, {128, 176}, {128, 192}, {64, 16}}) {
    expect_clean(hopper(tile_m, tile_n, GemmMainloop::pingpong, 2), 90);
  }
  for (const auto& [tile_m, tile_n] : {std::pair{64, 16}, {64, 240}, {128, 96}}) {
    expect_clean(hopper(tile_m, tile_n, GemmMainloop::cooperative, 1), 90);
  }
}

TEST(HopperGemmKernel, LayoutsClustersAndTypesCompileClean) {
  const std::array<std::pair<int, int>, 3> clusters{{{1, 1}, {2, 1}, {1, 2}}};
  int next = 0;
  for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
    for (const OutputType output : {OutputType::fp16, OutputType::bf16, OutputType::fp32}) {
      HopperGemmConfig config =
          hopper(128, 160, next % 2 == 0 ? GemmMainloop::pingpong : GemmMainloop::cooperative, 2);
      config.dtype = next % 2 == 0 ? DType::fp16 : DType::bf16;
      config.layout = layout;
      config.output = output;
      config.cluster_m = clusters.at(static_cast<std::size_t>(next % 3)).first;
      config.cluster_n = clusters.at(static_cast<std::size_t>(next % 3)).second;
      config.k_order = next % 2 == 0 ? Order::sawtooth : Order::cyclic;
      config.persistence = next % 2 == 0 ? Persistence::grid : Persistence::persistent;
      expect_clean(config, 90);
      ++next;
    }
  }
}

TEST(HopperGemmKernel, SplitsDeepTilesAndReadingCCompileClean) {
  for (HopperGemmConfig config : {hopper(64, 64, GemmMainloop::cooperative, 1),
                                  hopper(128, 128, GemmMainloop::cooperative, 2),
                                  hopper(64, 128, GemmMainloop::pingpong, 2)}) {
    config.split_k = true;
    expect_clean(config, 90);
    config.tile_k = 128;
    config.stages = 2;
    expect_clean(config, 90);
    config.reads_c = true;
    expect_clean(config, 90);
  }
}

TEST(HopperGemmKernel, SplitsOfWideTilesCompileClean) {
  for (HopperGemmConfig config : {hopper(128, 256, GemmMainloop::cooperative, 2),
                                  hopper(256, 160, GemmMainloop::cooperative, 2),
                                  hopper(128, 160, GemmMainloop::pingpong, 2)}) {
    config.split_k = true;
    config.cluster_m = 2;
    expect_clean(config, 90);
  }
}

TEST(HopperGemmKernel, ThreeConsumersAndWidthsOfEightCompileClean) {
  for (const int tile_n : {104, 160, 192}) {
    HopperGemmConfig three = hopper(192, tile_n, GemmMainloop::cooperative, 3);
    expect_clean(three, 90);
    three.cluster_m = 2;
    three.layout = GemmLayout::tn;
    expect_clean(three, 90);
    three.split_k = true;
    expect_clean(three, 90);
  }
  expect_clean(hopper(256, 152, GemmMainloop::cooperative, 2), 90);
  expect_clean(hopper(128, 184, GemmMainloop::pingpong, 2), 90);
}

TEST(HopperGemmKernel, ClustersAlongKCompileClean) {
  for (const auto& [tile_m, tile_n, consumers, cluster_k] :
       {std::array{64, 16, 1, 8}, std::array{64, 256, 1, 2}, std::array{128, 144, 2, 2},
        std::array{128, 224, 2, 3}, std::array{256, 144, 2, 4}}) {
    HopperGemmConfig config = hopper(tile_m, tile_n, GemmMainloop::cooperative, consumers);
    config.persistence = Persistence::grid;
    config.cluster_k = cluster_k;
    expect_clean(config, 90);
    config.output = OutputType::fp32;
    config.reads_c = true;
    expect_clean(config, 90);
  }
}

/// Their warps store C themselves. Tiles that take the most registers are asked for in every
/// alignment, the others where C is stored by elements.
TEST(HopperGemmKernel, OddRowsCompileClean) {
  for (const int alignment : {2, 4, 8}) {
    for (HopperGemmConfig config : {hopper(128, 256, GemmMainloop::cooperative, 2),
                                    hopper(256, 192, GemmMainloop::cooperative, 2),
                                    hopper(192, 192, GemmMainloop::cooperative, 3),
                                    hopper(128, 192, GemmMainloop::pingpong, 2),
                                    hopper(64, 32, GemmMainloop::cooperative, 1)}) {
      config.alignment_bytes = alignment;
      const bool is_ping_pong = config.mainloop == GemmMainloop::pingpong;
      const bool is_widest = config.tile_n == 256;
      if (alignment > 2 && !is_ping_pong && !is_widest) {
        continue;
      }
      if (is_ping_pong && alignment == 2) {
        config.tile_n = 176;  // 192 spill 4 bytes, and the tuner drops them.
      }
      const bool is_wide = alignment == 4 && !is_ping_pong;
      config.output = is_wide ? OutputType::fp32 : OutputType::bf16;
      expect_clean(config, 90);
    }
    HopperGemmConfig read = hopper(128, 160, GemmMainloop::cooperative, 2);
    read.alignment_bytes = alignment;
    read.reads_c = true;
    expect_clean(read, 90);
  }
}

HopperGemmConfig fp8(HopperGemmConfig config, Scaling scaling, int promote_every) {
  config.dtype = DType::e4m3;
  config.tile_k = 128;
  config.scaling = scaling;
  config.promote_every = promote_every;
  return config;
}

TEST(HopperGemmKernel, Fp8OfEveryRecipeCompilesClean) {
  const auto cooperative = GemmMainloop::cooperative;
  expect_clean(fp8(hopper(128, 256, cooperative, 2), Scaling::row, 0), 90);
  expect_clean(fp8(hopper(128, 192, GemmMainloop::pingpong, 2), Scaling::tensor, 0), 90);
  expect_clean(fp8(hopper(128, 208, cooperative, 2), Scaling::row, 128), 90);
  expect_clean(fp8(hopper(64, 32, cooperative, 1), Scaling::tensor, 256), 90);
  expect_clean(fp8(hopper(128, 192, cooperative, 2), Scaling::block, 128), 90);
  expect_clean(fp8(hopper(256, 128, cooperative, 2), Scaling::block, 128), 90);
  HopperGemmConfig split = fp8(hopper(128, 96, cooperative, 2), Scaling::block, 128);
  split.split_k = true;
  split.k_order = Order::sawtooth;
  split.dtype = DType::e5m2;
  expect_clean(split, 90);
}

TEST(HopperGemmKernel, FusedEpiloguesCompileClean) {
  HopperGemmConfig gated = hopper(128, 256, GemmMainloop::cooperative, 2);
  gated.cluster_m = 2;
  gated.gated = true;
  gated.has_bias = true;
  gated.activation = Activation::silu;
  expect_clean(gated, 90);
  gated.output = OutputType::fp8;
  gated.output_scaling = Scaling::block;
  expect_clean(fp8(gated, Scaling::row, 0), 90);
  HopperGemmConfig added = hopper(128, 192, GemmMainloop::pingpong, 2);
  added.stages = 4;
  added.activation = Activation::gelu;
  added.reads_c = true;
  added.output = OutputType::fp16;
  added.tile_n = 176;
  expect_clean(added, 90);
}

TEST(HopperGemmKernel, GroupsCompileClean) {
  int next = 0;
  for (const GemmGroups groups :
       {GemmGroups::offsets, GemmGroups::contiguous, GemmGroups::masked}) {
    for (HopperGemmConfig config : {hopper(128, 256, GemmMainloop::cooperative, 2),
                                    hopper(256, 128, GemmMainloop::cooperative, 2),
                                    hopper(128, 192, GemmMainloop::pingpong, 2),
                                    hopper(64, 16, GemmMainloop::cooperative, 1)}) {
      config.groups = groups;
      config.cluster_m = 1 + next % 2;
      config.layout = next % 3 == 0 ? GemmLayout::nn : GemmLayout::nt;
      config.output = config.tile_n == 16 ? OutputType::fp32 : OutputType::bf16;
      ++next;
      expect_clean(config, 90);
    }
  }
}

TEST(HopperGemmKernel, IsRefusedElsewhere) {
  EXPECT_THROW(generator().compile_configured(gemm_operation(), family_of(kHopper),
                                              config_header(kHopper), 80),
               Error);
  EXPECT_THROW(generator().compile_configured(gemm_operation(), family_of(kHopper),
                                              config_header(kHopper), 120),
               Error);
}

constexpr PortableGemmConfig kPortable = [] {
  PortableGemmConfig config = test::portable_gemm(128, 128, 2, 4);
  config.stages = 4;
  return config;
}();

class PortableGemmKernel : public testing::TestWithParam<int> {};
std::string arch_name(const testing::TestParamInfo<int>& given) {
  return "sm_" + std::to_string(given.param);
}
INSTANTIATE_TEST_SUITE_P(Archs, PortableGemmKernel, testing::Values(80, 89, 90, 100, 121),
                         arch_name);

TEST_P(PortableGemmKernel, CompilesCleanAtItsCorners) {
  PortableGemmConfig small = kPortable;
  small.tile_m = 16;
  small.tile_n = 16;
  small.warps_m = 1;
  small.warps_n = 1;
  small.stages = 2;
  small.layout = GemmLayout::tn;
  small.alignment_bytes = 2;
  PortableGemmConfig split = kPortable;
  split.dtype = DType::fp16;
  split.output = OutputType::fp32;
  split.layout = GemmLayout::nn;
  split.reads_c = true;
  split.alignment_bytes = 4;
  split.tile_n = 64;
  split.tile_k = 64;
  split.stages = 3;
  split.persistence = Persistence::persistent;
  split.k_order = Order::sawtooth;
  split.split_k = true;
  PortableGemmConfig grouped = kPortable;
  grouped.persistence = Persistence::persistent;
  grouped.groups = GemmGroups::offsets;
  PortableGemmConfig masked = split;
  masked.reads_c = false;
  masked.split_k = false;
  masked.groups = GemmGroups::masked;
  for (const PortableGemmConfig& config : {kPortable, small, split, grouped, masked}) {
    expect_clean(config, GetParam());
  }
}

TEST_P(PortableGemmKernel, Fp8AndFusedEpiloguesCompileClean) {
  PortableGemmConfig gated = kPortable;
  gated.gated = true;
  gated.has_bias = true;
  gated.activation = Activation::silu;
  expect_clean(gated, GetParam());
  const bool emulates_fp8 = GetParam() == 90;  // By the compiler; nobody runs these there.
  if (GetParam() < 89 || emulates_fp8) {
    return;
  }
  PortableGemmConfig fast = kPortable;
  fast.dtype = DType::e4m3;
  fast.tile_k = 64;
  fast.scaling = Scaling::row;
  expect_clean(fast, GetParam());
  PortableGemmConfig blocks = fast;
  blocks.scaling = Scaling::block;
  blocks.tile_n = 64;
  blocks.tile_k = 128;
  blocks.promote_every = 128;
  blocks.dtype = DType::e5m2;
  expect_clean(blocks, GetParam());
  PortableGemmConfig scaled = fast;
  scaled.tile_m = 64;
  scaled.tile_n = 128;
  scaled.warps_m = 4;
  scaled.warps_n = 1;
  scaled.output = OutputType::fp8;
  scaled.output_scaling = Scaling::block;
  scaled.activation = Activation::gelu_tanh;
  expect_clean(scaled, GetParam());
}

}  // namespace
}  // namespace swr
