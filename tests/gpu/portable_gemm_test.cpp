// SPDX-License-Identifier: MIT
// The portable GEMM family against the reference: every value of every axis, ragged, unaligned and
// tiny sizes, both input types, the three output types, layouts, batches and splits.
#include "tests/gpu/gemm_case.h"
#include "tests/gpu/gpu_test.h"
#include <swr/gemm_problem.h>

namespace swr {
namespace {

/// Ragged in every size, several tiles along m and n, several k-blocks.
GemmProblem ragged(GemmLayout layout = GemmLayout::nt) {
  return {.m = 330, .n = 541, .k = 459, .layout = layout};
}

PortableGemmConfig portable(int tile_m, int tile_n, int warps_m, int warps_n) {
  return {.dtype = DType::bf16,
          .output = OutputType::bf16,
          .layout = GemmLayout::nt,
          .reads_c = false,
          .alignment_bytes = 16,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 32,
          .warps_m = warps_m,
          .warps_n = warps_n,
          .stages = 3,
          .persistence = Persistence::grid,
          .k_order = Order::cyclic,
          .split_k = false};
}

std::vector<GemmCase> tile_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [tile_m, tile_n, warps_m, warps_n] :
       {std::array{16, 16, 1, 1}, std::array{32, 16, 2, 1}, std::array{32, 64, 1, 2},
        std::array{64, 48, 2, 1}, std::array{64, 64, 2, 2}, std::array{96, 96, 2, 2},
        std::array{128, 64, 4, 1}, std::array{128, 128, 2, 2}, std::array{128, 128, 2, 4},
        std::array{64, 256, 1, 4}, std::array{256, 128, 4, 2}}) {
    for (const int tile_k : {32, 64}) {
      PortableGemmConfig config = portable(tile_m, tile_n, warps_m, warps_n);
      config.tile_k = tile_k;
      cases.push_back(fitted("tile_" + text(tile_m) + "x" + text(tile_n) + "x" + text(tile_k) +
                                 "_warps_" + text(warps_m) + "x" + text(warps_n),
                             ragged(), config));
    }
  }
  for (const int stages : {2, 4, 5}) {
    PortableGemmConfig config = portable(64, 64, 2, 2);
    config.stages = stages;
    cases.push_back(fitted("stages_" + text(stages), ragged(), config));
  }
  return cases;
}

std::vector<GemmCase> layout_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [layout, name] :
       {std::pair{GemmLayout::nt, "nt"}, {GemmLayout::nn, "nn"}, {GemmLayout::tn, "tn"}}) {
    for (const int alignment : {2, 4, 8, 16}) {
      GemmProblem problem = ragged(layout);
      problem.alignment_bytes = alignment;
      problem.batch = 2;
      cases.push_back(fitted(name + std::string("_aligned_to_") + text(alignment), problem,
                             portable(64, 48, 2, 1)));
    }
  }
  return cases;
}

std::vector<GemmCase> type_cases() {
  std::vector<GemmCase> cases;
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const auto& [output, name] : {std::pair{OutputType::fp16, "fp16"},
                                       {OutputType::bf16, "bf16"},
                                       {OutputType::fp32, "fp32"}}) {
      for (const bool reads_c : {false, true}) {
        for (const int alignment : {4, 16}) {
          GemmProblem problem = ragged();
          problem.dtype = dtype;
          problem.output = output;
          problem.reads_c = reads_c;
          problem.alignment_bytes = alignment;
          GemmCase given =
              fitted(std::string(to_string(dtype)) + "_to_" + name + (reads_c ? "_reading_c" : "") +
                         "_aligned_to_" + text(alignment),
                     problem, portable(64, 64, 2, 2));
          given.alpha = 0.5F;
          given.beta = reads_c ? 2.0F : 0.0F;
          cases.push_back(given);
        }
      }
    }
  }
  return cases;
}

std::vector<GemmCase> size_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, std::array{2, 1, 3}, std::array{17, 33, 65}, std::array{65, 1, 700},
        std::array{1, 701, 129}, std::array{129, 257, 63}, std::array{1000, 9, 40}}) {
    for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
      const GemmProblem problem{.m = m, .n = n, .k = k, .layout = layout, .alignment_bytes = 2};
      cases.push_back(fitted("size_" + text(m) + "x" + text(n) + "x" + text(k) + "_layout_" +
                                 text(static_cast<int>(layout)),
                             problem, portable(64, 64, 2, 2)));
    }
  }
  return cases;
}

std::vector<GemmCase> schedule_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [raster, name] : {std::pair{Raster::along_n, "along_n"},
                                     {Raster::along_m, "along_m"},
                                     {Raster::grouped, "grouped"},
                                     {Raster::serpentine, "serpentine"},
                                     {Raster::hilbert, "hilbert"}}) {
    for (const Persistence persistence : {Persistence::grid, Persistence::persistent}) {
      PortableGemmConfig config = portable(64, 48, 2, 1);
      config.persistence = persistence;
      config.k_order = persistence == Persistence::grid ? Order::cyclic : Order::sawtooth;
      GemmCase given =
          fitted(std::string(name) + "_" + std::string(to_string(persistence)), ragged(), config);
      given.raster = raster;
      given.raster_group = 3;
      given.swizzle_stride = 128;
      cases.push_back(given);
    }
  }
  for (const int splits : {1, 2, 3, 7}) {
    for (const Persistence persistence : {Persistence::grid, Persistence::persistent}) {
      PortableGemmConfig config = portable(64, 64, 2, 2);
      config.persistence = persistence;
      config.split_k = true;
      GemmProblem problem = ragged();
      problem.batch = 2;
      GemmCase given = fitted("splits_" + text(splits) + "_" + std::string(to_string(persistence)),
                              problem, config);
      given.splits = splits;
      cases.push_back(given);
    }
  }
  return cases;
}

/// FP8 of every recipe, and epilogues; on sm_90 the compiler emulates the products.
std::vector<GemmCase> fp8_cases() {
  std::vector<GemmCase> cases;
  for (const Scaling scaling : {Scaling::tensor, Scaling::row, Scaling::block}) {
    for (const int promote_every : {0, 128, 256}) {
      if ((scaling == Scaling::block) != (promote_every == 128)) {
        continue;
      }
      for (const int splits : {1, 3}) {
        GemmProblem problem = ragged();
        problem.batch = 1;
        problem.n = 133;
        problem.layout = GemmLayout::nt;
        problem.dtype = splits == 1 ? DType::e4m3 : DType::e5m2;
        problem.scaling = scaling;
        problem.accuracy = promote_every > 0 ? Accuracy::two_level : Accuracy::fast;
        problem.has_bias = true;
        problem.activation = splits == 1 ? Activation::none : Activation::silu;
        problem.alignment_bytes = splits == 1 ? 4 : 16;
        PortableGemmConfig config = portable(64, 64, 2, 2);
        config.tile_k = scaling == Scaling::block ? 128 : 64;
        config.promote_every = promote_every;
        config.split_k = splits > 1;
        GemmCase given = fitted(std::string(to_string(scaling)) + "_every_" + text(promote_every) +
                                    "_splits_" + text(splits),
                                problem, config);
        given.splits = splits;
        cases.push_back(given);
      }
    }
  }
  GemmProblem gated = ragged();
  gated.batch = 1;
  gated.layout = GemmLayout::nt;
  gated.gated = true;
  gated.activation = Activation::gelu;
  cases.push_back(fitted("gated", gated, portable(64, 64, 2, 2)));
  GemmProblem scaled = ragged();
  scaled.batch = 1;
  scaled.n = 256;
  scaled.layout = GemmLayout::nt;
  scaled.output = OutputType::fp8;
  scaled.output_scaling = Scaling::block;
  cases.push_back(fitted("output_of_fp8", scaled, portable(64, 128, 4, 1)));
  return cases;
}

class PortableGemm : public GemmTest {};

TEST_P(PortableGemm, MatchesTheReference) { expect_match(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tiles, PortableGemm, ::testing::ValuesIn(tile_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Fp8, PortableGemm, ::testing::ValuesIn(fp8_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Layouts, PortableGemm, ::testing::ValuesIn(layout_cases()),
                         gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Types, PortableGemm, ::testing::ValuesIn(type_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Sizes, PortableGemm, ::testing::ValuesIn(size_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Schedules, PortableGemm, ::testing::ValuesIn(schedule_cases()),
                         gemm_case_name);

}  // namespace
}  // namespace swr
