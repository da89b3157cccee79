// SPDX-License-Identifier: MIT
// The portable GEMM family against the reference: every value of every axis, ragged, unaligned and
// tiny sizes, both input types, the three output types, layouts, batches and splits.
#include "tests/gpu/gemm_case.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/gemm_configs.h"
#include <swr/gemm_problem.h>
#include <swr/runtime.h>

namespace swr {
namespace {

/// Ragged in every size, several tiles along m and n, several k-blocks.
GemmProblem ragged(GemmLayout layout = GemmLayout::nt) {
  return {.m = 330, .n = 541, .k = 459, .layout = layout};
}

using test::portable_gemm;

std::vector<GemmCase> tile_cases() {
  std::vector<GemmCase> cases;
  for (const auto& [tile_m, tile_n, warps_m, warps_n] :
       {std::array{16, 16, 1, 1}, std::array{32, 16, 2, 1}, std::array{32, 64, 1, 2},
        std::array{64, 48, 2, 1}, std::array{64, 64, 2, 2}, std::array{96, 96, 2, 2},
        std::array{128, 64, 4, 1}, std::array{128, 128, 2, 2}, std::array{128, 128, 2, 4},
        std::array{64, 256, 1, 4}, std::array{256, 128, 4, 2}}) {
    for (const int tile_k : {32, 64}) {
      PortableGemmConfig config = portable_gemm(tile_m, tile_n, warps_m, warps_n);
      config.tile_k = tile_k;
      cases.push_back(fitted("tile_" + text(tile_m) + "x" + text(tile_n) + "x" + text(tile_k) +
                                 "_warps_" + text(warps_m) + "x" + text(warps_n),
                             ragged(), config));
    }
  }
  for (const int stages : {2, 4, 5}) {
    PortableGemmConfig config = portable_gemm(64, 64, 2, 2);
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
                             portable_gemm(64, 48, 2, 1)));
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
                     problem, portable_gemm(64, 64, 2, 2));
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
                             problem, portable_gemm(64, 64, 2, 2)));
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
      PortableGemmConfig config = portable_gemm(64, 48, 2, 1);
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
      PortableGemmConfig config = portable_gemm(64, 64, 2, 2);
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
        PortableGemmConfig config = portable_gemm(64, 64, 2, 2);
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
  cases.push_back(fitted("gated", gated, portable_gemm(64, 64, 2, 2)));
  GemmProblem scaled = ragged();
  scaled.batch = 1;
  scaled.n = 256;
  scaled.layout = GemmLayout::nt;
  scaled.output = OutputType::fp8;
  scaled.output_scaling = Scaling::block;
  cases.push_back(fitted("output_of_fp8", scaled, portable_gemm(64, 128, 4, 1)));
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

// Grouped GEMM of both families against the reference of every group by itself: counts around the
// edges of tiles, empty groups, all rows in one, many tiny groups. What lies behind the rows of a
// group, and belongs to no other, must stay as it was.

using Counts = std::vector<int>;

Counts tiny_groups() {
  Counts counts(64);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = static_cast<int>(i * i % 5 % 4);
  }
  return counts;
}

/// More than one round of the lanes that count them.
Counts many_groups() {
  Counts counts(300, 0);
  counts[7] = 1;
  counts[131] = 70;
  counts[299] = 129;
  return counts;
}

std::vector<std::pair<std::string, Counts>> every_count() {
  return {{"edges", {0, 1, 63, 64, 65, 127, 129, 128, 0, 0}},
          {"one_row_each", {1, 1, 1}},
          {"all_in_one", {0, 0, 300, 0}},
          {"all_in_the_last", {0, 0, 259}},
          {"none_at_all", {0, 0}},
          {"tiny", tiny_groups()},
          {"many", many_groups()}};
}

constexpr std::array kForms{std::pair{GemmGroups::offsets, "offsets"},
                            std::pair{GemmGroups::contiguous, "contiguous"},
                            std::pair{GemmGroups::masked, "masked"}};

/// Ragged along n and k.
GemmProblem grouped(GemmGroups form, const Counts& counts, GemmLayout layout = GemmLayout::nt) {
  return {.m = 64,
          .n = 264,
          .k = 200,
          .batch = static_cast<int>(counts.size()),
          .layout = layout,
          .groups = form};
}

PortableGemmConfig portable_config(int tile_m, int warps_m) {
  PortableGemmConfig config = portable_gemm(tile_m, 64, warps_m, 2);
  config.persistence = Persistence::persistent;
  return config;
}

/// Every count in every form where the cluster's rows divide a run.
template <typename Config>
void add_counts(std::vector<GemmCase>& cases, const std::string& name, const Config& config,
                int cluster_rows, GemmLayout layout = GemmLayout::nt) {
  for (const auto& [form, form_name] : kForms) {
    for (const auto& [counts_name, counts] : every_count()) {
      if (form != GemmGroups::contiguous || kContiguousRows % cluster_rows == 0) {
        GemmCase given = fitted(name + "_" + form_name + "_" + counts_name,
                                grouped(form, counts, layout), config);
        given.counts = counts;
        given.workers = 6;
        given.raster = Raster::grouped;
        given.raster_group = 2;
        cases.push_back(given);
      }
    }
  }
}

/// FP8 with scales of blocks, whose consumers take turns also where one has no rows.
template <typename Config>
void add_blocks(std::vector<GemmCase>& cases, const std::string& name, Config config) {
  const Counts counts{0, 1, 63, 64, 65, 127, 129, 0, 300};
  config.tile_k = kScaleBlock;
  config.promote_every = kScaleBlock;
  for (const auto& [form, form_name] : kForms) {
    const bool divides = form != GemmGroups::contiguous || config.tile_m <= kContiguousRows;
    if (form == GemmGroups::offsets || !divides) {
      continue;
    }
    GemmProblem problem = grouped(form, counts);
    problem.dtype = DType::e4m3;
    problem.n = 400;
    problem.k = 2320;
    problem.scaling = Scaling::block;
    problem.accuracy = Accuracy::two_level;
    GemmCase given = fitted(name + "_" + form_name, problem, config);
    given.counts = counts;
    given.workers = 6;
    cases.push_back(given);
  }
}

std::vector<GemmCase> hopper_cases() {
  std::vector<GemmCase> cases;
  add_counts(cases, "tile_64x96", test::hopper_gemm(64, 96, 1), 64);
  add_counts(cases, "tile_128x128", test::hopper_gemm(128, 128, 2), 128);
  add_counts(cases, "tile_128x256", test::hopper_gemm(128, 256, 2), 128);
  add_counts(cases, "tile_256x64", test::hopper_gemm(256, 64, 2), 256);
  add_counts(cases, "pingpong_64x128", test::hopper_gemm(64, 128, 2, GemmMainloop::pingpong), 64);
  HopperGemmConfig shares_b = test::hopper_gemm(64, 64, 2, GemmMainloop::pingpong);
  shares_b.cluster_m = 2;
  shares_b.k_order = Order::sawtooth;
  add_counts(cases, "pingpong_cluster_2x1", shares_b, 128, GemmLayout::nn);
  shares_b.mainloop = GemmMainloop::cooperative;
  shares_b.tile_m = 128;
  add_counts(cases, "cluster_2x1", shares_b, 256);
  HopperGemmConfig shares_a = test::hopper_gemm(128, 80, 2);
  shares_a.cluster_n = 2;
  add_counts(cases, "cluster_1x2", shares_a, 128);
  // Consumers without rows hand back many stages while others compute.
  for (const auto& [name, config] : {std::pair{"long_k", test::hopper_gemm(128, 128, 2)},
                                     std::pair{"long_k_cluster", shares_b}}) {
    GemmProblem problem = grouped(GemmGroups::offsets, {1, 65, 64, 0, 130, 7});
    problem.n = 1032;
    problem.k = 7168;
    GemmCase given = fitted(name, problem, config);
    given.counts = {1, 65, 64, 0, 130, 7};
    cases.push_back(given);
  }
  for (const auto& [name, accuracy, promote_every] :
       {std::tuple{"e4m3_fast", Accuracy::fast, 0}, std::tuple{"e4m3", Accuracy::two_level, 128}}) {
    for (const auto& [form, form_name] : kForms) {
      GemmProblem problem = grouped(form, {0, 1, 63, 64, 65, 127, 129, 0});
      problem.dtype = DType::e4m3;
      problem.n = 272;
      problem.k = 528;
      problem.scaling = Scaling::row;
      problem.accuracy = accuracy;
      HopperGemmConfig config = test::hopper_gemm(128, 128, 2);
      config.tile_k = 128;
      config.promote_every = promote_every;
      GemmCase given = fitted(std::string(name) + "_" + form_name, problem, config);
      given.counts = {0, 1, 63, 64, 65, 127, 129, 0};
      cases.push_back(given);
    }
  }
  for (const auto& [form, form_name] : kForms) {
    GemmProblem problem = grouped(form, every_count().front().second);
    problem.activation = Activation::silu;
    problem.gated = true;
    for (const int cluster_m : {1, 2}) {
      HopperGemmConfig config = test::hopper_gemm(64, 96, 1);
      config.cluster_m = cluster_m;
      GemmCase given =
          fitted("gated_" + std::to_string(cluster_m) + "_" + form_name, problem, config);
      given.counts = every_count().front().second;
      cases.push_back(given);
    }
  }
  for (const auto& [name, config] :
       {std::pair{"blocks", test::hopper_gemm(128, 128, 2)},
        std::pair{"blocks_64", test::hopper_gemm(64, 96, 1)},
        std::pair{"blocks_pingpong", test::hopper_gemm(64, 128, 2, GemmMainloop::pingpong)},
        std::pair{"blocks_256", test::hopper_gemm(256, 96, 2)}}) {
    add_blocks(cases, name, config);
  }
  GemmCase wide = cases.front();
  wide.name = "fp16_to_fp32";
  wide.problem.dtype = DType::fp16;
  wide.problem.output = OutputType::fp32;
  wide.alpha = 0.5F;
  GemmCase fp32 = fitted(wide.name, wide.problem, test::hopper_gemm(64, 96, 1));
  fp32.counts = wide.counts;
  cases.push_back(fp32);
  return cases;
}

std::vector<GemmCase> portable_cases() {
  std::vector<GemmCase> cases;
  add_counts(cases, "tile_32", portable_config(32, 1), 32);
  add_counts(cases, "tile_128", portable_config(128, 2), 128, GemmLayout::nn);
  GemmProblem misaligned = grouped(GemmGroups::offsets, every_count().front().second);
  misaligned.n = 77;
  misaligned.k = 107;
  misaligned.alignment_bytes = 2;
  add_blocks(cases, "blocks", portable_config(64, 2));
  GemmCase given = fitted("misaligned", misaligned, portable_config(64, 2));
  given.counts = every_count().front().second;
  cases.push_back(given);
  return cases;
}

class GroupedGemm : public GemmTest {
 protected:
  void SetUp() override {
    GemmTest::SetUp();
    const bool needs_hopper = std::holds_alternative<HopperGemmConfig>(GetParam().config);
    if (!IsSkipped() && !HasFatalFailure() && needs_hopper && bench().device.sm_arch != 90) {
      GTEST_SKIP() << "the family runs on sm_90 alone";
    }
  }
};

TEST_P(GroupedGemm, MatchesTheReferenceOfEachGroup) { expect_match(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Hopper, GroupedGemm, ::testing::ValuesIn(hopper_cases()), gemm_case_name);
INSTANTIATE_TEST_SUITE_P(Portable, GroupedGemm, ::testing::ValuesIn(portable_cases()),
                         gemm_case_name);

class GroupedGemmRuntime : public GpuTest {};

/// The numbers that count are those at the time of the replay.
TEST_F(GroupedGemmRuntime, ACapturedProductFollowsTheNumbersOnTheDevice) {
  const Stream& stream = bench().stream;
  for (const GemmGroups form : {GemmGroups::offsets, GemmGroups::masked}) {
    const Counts counts{100, 0, 3, 250};
    const GemmProblem problem = grouped(form, counts);
    const GroupPlaces places(form, counts);
    const GemmBuffers buffers(problem, places, bench().gemm_kernels(), stream, GemmInputs::binary,
                              1.0F, 0.0F, RowGap::none, 1, ExpectedC::computed);
    const DeviceBuffer numbers(places.numbers.size() * sizeof(int));
    numbers.fill(0, stream);
    GemmCall call{.params = buffers.params(), .grouping = {.form = form, .expected_rows = 100}};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
    call.params.groups = reinterpret_cast<const int*>(numbers.address());
    Runtime runtime({});
    runtime.gemm(call, stream.handle());
    buffers.reset_output(stream);
    const Graph graph(stream, [&] { runtime.gemm(call, stream.handle()); });
    graph.launch(stream);
    stream.synchronize();
    numbers.upload(std::as_bytes(std::span(places.numbers)));
    graph.launch(stream);
    EXPECT_EQ(buffers.compare(stream).different_elements, 0.0);
    EXPECT_EQ(buffers.disturbed_words(stream), 0U);
  }
}

}  // namespace
}  // namespace swr
