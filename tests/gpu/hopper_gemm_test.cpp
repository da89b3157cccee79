// SPDX-License-Identifier: MIT
// The Hopper GEMM family against the reference: every value of every axis, ragged and tiny sizes,
// both input types, the three output types, layouts, batches and splits.
#include "tests/gpu/gemm_case.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/gemm_configs.h"
#include <swr/gemm_problem.h>

namespace swr {
namespace {

/// Ragged in every size, several tiles along m and n, several k-blocks. The copy engine wants rows
/// of 16 bytes.
GemmProblem ragged(GemmLayout layout = GemmLayout::nt) {
  return {.m = 328, .n = 552, .k = 456, .layout = layout};
}

HopperGemmConfig hopper(int tile_m, int tile_n, int stages = 3) {
  HopperGemmConfig config = test::hopper_gemm(tile_m, tile_n, tile_m == 64 ? 1 : 2);
  config.stages = stages;
  return config;
}

HopperGemmConfig pingpong(int tile_m, int tile_n) {
  return test::hopper_gemm(tile_m, tile_n, 2, GemmMainloop::pingpong);
}

HopperGemmConfig with_cluster(HopperGemmConfig config, int cluster_m, int cluster_n) {
  config.cluster_m = cluster_m;
  config.cluster_n = cluster_n;
  return config;
}

std::vector<GemmCase> tile_cases() {
  std::vector<GemmCase> cases;
  for (int tile_n = 16; tile_n <= 256; tile_n += 16) {
    cases.push_back(fitted("tile_64x" + text(tile_n), ragged(), hopper(64, tile_n)));
  }
  for (const auto& [tile_m, tile_n] : {std::pair{128, 16},
                                       {128, 48},
                                       {128, 128},
                                       {128, 208},
                                       {128, 256},
                                       {256, 32},
                                       {256, 80},
                                       {256, 128},
                                       {256, 144},
                                       {256, 176},
                                       {256, 192}}) {
    cases.push_back(
        fitted("tile_" + text(tile_m) + "x" + text(tile_n), ragged(), hopper(tile_m, tile_n)));
  }
  for (const auto& [tile_m, tile_n] : {std::pair{64, 48}, {64, 256}, {128, 64}, {128, 176}}) {
    cases.push_back(fitted("pingpong_" + text(tile_m) + "x" + text(tile_n), ragged(),
                           pingpong(tile_m, tile_n)));
  }
  HopperGemmConfig one = hopper(128, 96);
  one.consumers = 1;
  cases.push_back(fitted("one_consumer_of_128_rows", ragged(), one));
  // Widths that leave half of 16 columns, also where a pair loads halves of 8 lines and a half
  // each.
  for (const auto& [tile_m, tile_n] :
       {std::pair{64, 24}, {64, 72}, {128, 104}, {128, 248}, {256, 152}}) {
    cases.push_back(
        fitted("tile_" + text(tile_m) + "x" + text(tile_n), ragged(), hopper(tile_m, tile_n)));
    cases.push_back(fitted("pair_" + text(tile_m) + "x" + text(tile_n), ragged(),
                           with_cluster(hopper(tile_m, tile_n), 2, 1)));
    cases.push_back(fitted("tn_" + text(tile_m) + "x" + text(tile_n), ragged(GemmLayout::tn),
                           with_cluster(hopper(tile_m, tile_n), 1, 2)));
  }
  for (const int tile_n : {128, 168, 192}) {
    HopperGemmConfig three = hopper(192, tile_n);
    three.consumers = 3;
    for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
      const std::string suffix =
          "_of_192x" + text(tile_n) + "_layout_" + text(static_cast<int>(layout));
      cases.push_back(fitted("three_consumers" + suffix, ragged(layout), three));
      cases.push_back(
          fitted("three_consumers_in_pairs" + suffix, ragged(layout), with_cluster(three, 2, 1)));
    }
    three.split_k = true;
    GemmCase split = fitted("three_consumers_split_192x" + text(tile_n), ragged(), three);
    split.splits = 3;
    cases.push_back(split);
  }
  for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::tn}) {
    const std::string suffix = "_layout_" + text(static_cast<int>(layout));
    cases.push_back(
        fitted("four_share_b" + suffix, ragged(layout), with_cluster(hopper(64, 144), 4, 1)));
    cases.push_back(
        fitted("four_share_a" + suffix, ragged(layout), with_cluster(hopper(128, 128), 1, 4)));
  }
  for (const int stages : {2, 4, 7}) {
    cases.push_back(fitted("stages_" + text(stages), ragged(), hopper(128, 64, stages)));
  }
  HopperGemmConfig deep = hopper(64, 96);
  deep.tile_k = 128;
  cases.push_back(fitted("tile_k_128", ragged(), deep));
  return cases;
}

std::vector<GemmCase> layout_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [layout, name] :
       {std::pair{GemmLayout::nt, "nt"}, {GemmLayout::nn, "nn"}, {GemmLayout::tn, "tn"}}) {
    for (const auto& [cluster_m, cluster_n] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      const std::string suffix = "_cluster_" + text(cluster_m) + "x" + text(cluster_n);
      cases.push_back(fitted(name + std::string("_128x112") + suffix, ragged(layout),
                             with_cluster(hopper(128, 112), cluster_m, cluster_n)));
      cases.push_back(fitted(name + std::string("_pingpong_64x96") + suffix, ragged(layout),
                             with_cluster(pingpong(64, 96), cluster_m, cluster_n)));
    }
    HopperGemmConfig deep = with_cluster(hopper(128, 80), 2, 1);
    deep.tile_k = 128;
    cases.push_back(fitted(name + std::string("_tile_k_128"), ragged(layout), deep));
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
        GemmProblem problem = ragged();
        problem.dtype = dtype;
        problem.output = output;
        problem.reads_c = reads_c;
        GemmCase given =
            fitted(std::string(to_string(dtype)) + "_to_" + name + (reads_c ? "_reading_c" : ""),
                   problem, hopper(128, 48));
        given.alpha = 0.5F;
        given.beta = reads_c ? 2.0F : 0.0F;
        cases.push_back(given);
      }
    }
  }
  GemmProblem wide = ragged();
  wide.output = OutputType::fp32;
  cases.push_back(fitted("fp32_in_overlapping_panels", wide, hopper(128, 176)));
  for (const OutputType output : {OutputType::bf16, OutputType::fp32}) {
    wide.output = output;
    wide.reads_c = true;
    for (const int tile_n : {24, 152, 200}) {
      GemmCase reads = fitted(
          "reads_" + std::string(to_string(output)) + "_in_overlapping_panels_of_" + text(tile_n),
          wide, hopper(128, tile_n));
      reads.beta = 2.0F;
      cases.push_back(reads);
    }
  }
  return cases;
}

std::vector<GemmCase> size_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [m, n, k] :
       {std::array{1, 8, 1}, std::array{1, 8, 8}, std::array{17, 32, 65}, std::array{64, 128, 64},
        std::array{65, 8, 700}, std::array{1, 704, 129}, std::array{129, 264, 63},
        std::array{1000, 24, 40}}) {
    const GemmProblem problem{.m = m, .n = n, .k = k};
    const std::string size = text(m) + "x" + text(n) + "x" + text(k);
    cases.push_back(fitted("size_" + size, problem, hopper(128, 128)));
    cases.push_back(
        fitted("size_" + size + "_cluster", problem, with_cluster(pingpong(64, 64), 2, 1)));
    const GemmProblem transposed{.m = m, .n = n, .k = k, .layout = GemmLayout::tn};
    cases.push_back(fitted("size_" + size + "_tile_64", problem, hopper(64, 96)));
    cases.push_back(fitted("size_" + size + "_tn", transposed, hopper(64, 32)));
  }
  for (const int batch : {2, 5}) {
    GemmProblem problem = ragged();
    problem.batch = batch;
    cases.push_back(fitted("batch_" + text(batch), problem, hopper(128, 128)));
    cases.push_back(
        fitted("batch_" + text(batch) + "_cluster", problem, with_cluster(hopper(128, 128), 1, 2)));
  }
  // Tiles of exactly as many k-blocks as there are stages, many per CTA: consumers that do not take
  // turns mistake one phase of a stage for another.
  HopperGemmConfig equal = pingpong(64, 64);
  equal.stages = 12;
  cases.push_back(fitted("pingpong_k_blocks_equal_stages", {.m = 64, .n = 6400, .k = 768}, equal));
  return cases;
}

std::vector<GemmCase> schedule_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [raster, name] : {std::pair{Raster::along_n, "along_n"},
                                     {Raster::along_m, "along_m"},
                                     {Raster::grouped, "grouped"},
                                     {Raster::serpentine, "serpentine"},
                                     {Raster::hilbert, "hilbert"}}) {
    for (const int stride : {0, 128}) {
      for (const Persistence persistence : {Persistence::grid, Persistence::persistent}) {
        HopperGemmConfig config = hopper(64, 48);
        config.persistence = persistence;
        config.k_order = persistence == Persistence::grid ? Order::cyclic : Order::sawtooth;
        GemmCase given = fitted(std::string(name) + "_stride_" + text(stride) + "_" +
                                    std::string(to_string(persistence)),
                                ragged(), config);
        given.raster = raster;
        given.raster_group = 2;
        given.swizzle_stride = stride;
        cases.push_back(given);
      }
    }
  }
  return cases;
}

std::vector<GemmCase> split_cases() {
  std::vector<GemmCase> cases;
  for (const int splits : {1, 2, 3, 8}) {
    for (const Persistence persistence : {Persistence::grid, Persistence::persistent}) {
      for (const HopperGemmConfig& base : {hopper(64, 64), hopper(128, 64), pingpong(64, 64),
                                           with_cluster(hopper(128, 64), 2, 1)}) {
        HopperGemmConfig config = base;
        config.split_k = true;
        config.persistence = persistence;
        GemmProblem problem = ragged();
        problem.batch = 2;
        problem.k = 1000;
        GemmCase given =
            fitted("splits_" + text(splits) + "_" + std::string(to_string(persistence)) + "_" +
                       (base.mainloop == GemmMainloop::pingpong ? "pingpong" : text(base.tile_m)) +
                       (base.cluster_m > 1 ? "_cluster" : ""),
                   problem, config);
        given.splits = splits;
        given.workers = 6;
        cases.push_back(given);
      }
    }
  }
  return cases;
}

HopperGemmConfig along_k(HopperGemmConfig config, int cluster_k) {
  config.persistence = Persistence::grid;
  config.cluster_k = cluster_k;
  return config;
}

/// Clusters that sum a tile in shared memory: every number of CTAs, shares of rows that come out
/// uneven, parts of k that do, and rows or columns past the end of C.
std::vector<GemmCase> cluster_k_cases() {
  std::vector<GemmCase> cases;
  HopperGemmConfig one = hopper(128, 96);
  one.consumers = 1;
  for (const int cluster_k : {2, 3, 4, 5, 8}) {
    const std::string suffix = "_by_" + text(cluster_k);
    GemmProblem problem = ragged();
    problem.batch = 2;
    problem.k = 1000;
    cases.push_back(fitted("tile_64x48" + suffix, problem, along_k(hopper(64, 48), cluster_k)));
    cases.push_back(fitted("tile_128x144" + suffix, problem, along_k(hopper(128, 144), cluster_k)));
    cases.push_back(
        fitted("tile_256x128" + suffix, problem, along_k(hopper(256, 128, 2), cluster_k)));
    cases.push_back(fitted("one_consumer" + suffix, problem, along_k(one, cluster_k)));
    for (const int m : {1, 16, 17, 65}) {
      cases.push_back(fitted("m_" + text(m) + suffix, {.m = m, .n = 72, .k = 64 * cluster_k},
                             along_k(hopper(64, 32), cluster_k)));
    }
    for (const OutputType output : {OutputType::fp32, OutputType::fp16}) {
      GemmProblem read = ragged(GemmLayout::tn);
      read.dtype = DType::fp16;
      read.output = output;
      read.reads_c = true;
      read.k = 520;
      GemmCase given = fitted(
          "tn_reading_c_" + std::string(output == OutputType::fp32 ? "fp32" : "fp16") + suffix,
          read, along_k(hopper(128, 80), cluster_k));
      given.alpha = 0.5F;
      given.beta = 2.0F;
      cases.push_back(given);
    }
  }
  HopperGemmConfig deep = along_k(hopper(64, 256, 2), 2);
  deep.tile_k = 128;
  cases.push_back(fitted("tile_k_128", {.m = 100, .n = 512, .k = 1032}, deep));
  return cases;
}

/// Rows that the copy engine cannot take: every alignment with every form of the family, and sizes
/// from 1 on.
std::vector<GemmCase> odd_row_cases() {
  std::vector<GemmCase> cases;
  HopperGemmConfig three = hopper(192, 168);
  three.consumers = 3;
  HopperGemmConfig split = hopper(128, 64);
  split.split_k = true;
  const std::vector<HopperGemmConfig> forms{hopper(128, 104),
                                            pingpong(64, 96),
                                            three,
                                            with_cluster(hopper(128, 256), 2, 1),
                                            with_cluster(hopper(256, 160, 2), 1, 2),
                                            along_k(hopper(128, 80), 3),
                                            split};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    for (const int alignment : {2, 4, 8, 16}) {
      for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
        GemmProblem problem{.m = 327, .n = 553, .k = 457, .layout = layout};
        problem.alignment_bytes = alignment;
        problem.batch = i % 2 == 0 ? 1 : 2;
        problem.dtype = i % 3 == 0 ? DType::fp16 : DType::bf16;
        problem.reads_c = i % 3 == 1;
        problem.output = alignment >= 4 && i == 4 ? OutputType::fp32 : OutputType::bf16;
        problem.has_bias = i == 0;
        GemmCase given = fitted("form_" + text(static_cast<int>(i)) + "_alignment_" +
                                    text(alignment) + "_layout_" + text(static_cast<int>(layout)),
                                problem, forms[i]);
        given.beta = problem.reads_c ? 2.0F : 0.0F;
        given.splits = forms[i].split_k ? 3 : 1;
        cases.push_back(given);
      }
    }
  }
  for (const OutputType output : {OutputType::bf16, OutputType::fp32}) {
    GemmProblem gated{.m = 100, .n = 167, .k = 129, .output = output};
    gated.alignment_bytes = output_bytes(output);
    gated.has_bias = true;
    gated.gated = true;
    gated.activation = Activation::silu;
    cases.push_back(
        fitted("gated_with_bias_" + std::string(to_string(output)), gated, hopper(128, 160)));
  }
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, std::array{2, 3, 5}, std::array{1, 700, 129},
                                std::array{65, 7, 701}}) {
    for (const GemmLayout layout : {GemmLayout::nt, GemmLayout::nn, GemmLayout::tn}) {
      GemmProblem problem{.m = m, .n = n, .k = k, .layout = layout};
      problem.alignment_bytes = 2;
      cases.push_back(fitted("size_" + text(m) + "x" + text(n) + "x" + text(k) + "_layout_" +
                                 text(static_cast<int>(layout)),
                             problem, hopper(64, 96)));
    }
  }
  return cases;
}

HopperGemmConfig fp8(HopperGemmConfig config, int promote_every = 0) {
  config.tile_k = 128;
  config.promote_every = promote_every;
  return config;
}

/// Every recipe with every form of the family, and epilogues of both types.
std::vector<GemmCase> fp8_cases() {
  std::vector<GemmCase> cases;
  const std::vector<HopperGemmConfig> forms{hopper(64, 64, 4),
                                            hopper(128, 176, 4),
                                            hopper(256, 96),
                                            pingpong(128, 96),
                                            with_cluster(hopper(128, 128), 2, 1),
                                            with_cluster(pingpong(64, 160), 1, 2),
                                            along_k(hopper(128, 96), 2)};
  for (const Scaling scaling : {Scaling::none, Scaling::tensor, Scaling::row, Scaling::block}) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
      GemmProblem problem = ragged();
      problem.k = 1040;
      problem.dtype = i == 2 ? DType::e5m2 : DType::e4m3;
      problem.output = i % 3 == 0 ? OutputType::fp32 : OutputType::bf16;
      problem.scaling = scaling;
      problem.accuracy =
          scaling == Scaling::block || i % 2 == 0 ? Accuracy::two_level : Accuracy::fast;
      const int every = problem.accuracy == Accuracy::fast ? 0
                        : scaling == Scaling::row          ? 256
                                                           : 128;
      GemmCase given =
          fitted(std::string(to_string(scaling)) + "_scales_form_" + text(static_cast<int>(i)),
                 problem, fp8(forms[i], every));
      given.alpha = 0.5F;
      cases.push_back(given);
      HopperGemmConfig split = fp8(forms[i], every);
      if (split.cluster_k == 1) {
        split.split_k = true;
        GemmCase parts = fitted(given.name + "_split", problem, split);
        parts.splits = 3;
        cases.push_back(parts);
      }
    }
  }
  GemmProblem problem = ragged();
  problem.k = 1040;
  problem.dtype = DType::e4m3;
  problem.scaling = Scaling::row;
  problem.accuracy = Accuracy::two_level;
  HopperGemmConfig full = fp8(hopper(256, 96), 256);
  full.stages = 2;
  cases.push_back(fitted("a_part_fills_the_ring", problem, full));
  return cases;
}

std::vector<GemmCase> epilogue_cases() {
  std::vector<GemmCase> cases;
  for (const DType dtype : {DType::bf16, DType::e4m3}) {
    for (const Activation activation :
         {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      for (const bool gated : {false, true}) {
        for (const OutputType output : {OutputType::bf16, OutputType::fp32, OutputType::fp8}) {
          GemmProblem problem{.m = 328, .n = 384, .k = 464};
          problem.dtype = dtype;
          problem.output = output;
          problem.has_bias = true;
          problem.activation = activation;
          problem.gated = gated;
          problem.scaling = dtype == DType::e4m3 ? Scaling::row : Scaling::none;
          const bool is_fp8_out = output == OutputType::fp8;
          problem.output_scaling = !is_fp8_out ? Scaling::none
                                   : gated     ? Scaling::tensor
                                               : Scaling::block;
          problem.reads_c = !is_fp8_out && activation == Activation::silu;
          HopperGemmConfig config =
              gated ? with_cluster(hopper(128, 128), 2, 1) : pingpong(128, 128);
          config.tile_k = dtype == DType::e4m3 ? 128 : 64;
          GemmCase given =
              fitted(std::string(to_string(dtype)) + "_to_" + std::string(to_string(output)) + "_" +
                         std::string(to_string(activation)) + (gated ? "_gated" : ""),
                     problem, config);
          given.beta = problem.reads_c ? 0.5F : 0.0F;
          cases.push_back(given);
        }
      }
    }
  }
  return cases;
}

class HopperGemm : public GemmTest {
 protected:
  void SetUp() override {
    GemmTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure() && bench().device.sm_arch != 90) {
      GTEST_SKIP() << "the family runs on sm_90 alone";
    }
  }
};

TEST_P(HopperGemm, MatchesTheReference) { expect_match(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Tiles, HopperGemm, ::testing::ValuesIn(tile_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Layouts, HopperGemm, ::testing::ValuesIn(layout_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Types, HopperGemm, ::testing::ValuesIn(type_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Sizes, HopperGemm, ::testing::ValuesIn(size_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Schedules, HopperGemm, ::testing::ValuesIn(schedule_cases()),
                         gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Splits, HopperGemm, ::testing::ValuesIn(split_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(OddRows, HopperGemm, ::testing::ValuesIn(odd_row_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Fp8, HopperGemm, ::testing::ValuesIn(fp8_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Epilogues, HopperGemm, ::testing::ValuesIn(epilogue_cases()),
                         gemm_case_name);
INSTANTIATE_TEST_SUITE_P(ClustersAlongK, HopperGemm, ::testing::ValuesIn(cluster_k_cases()),
                         gemm_case_name);

}  // namespace
}  // namespace swr
