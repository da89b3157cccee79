// SPDX-License-Identifier: MIT
// The time of GEMM: terms by hand, and against what an H200 measured (experiments/gemm).
#include "operations/attention/model/time.h"

#include "operations/gemm/model/time.h"
#include "tests/support/test.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

constexpr GemmVariant kVariant{.family = Family::hopper,
                               .tile_m = 128,
                               .tile_n = 256,
                               .tile_k = 64,
                               .stages = 4,
                               .mainloop = GemmMainloop::cooperative,
                               .consumers = 2,
                               .persistence = Persistence::persistent,
                               .raster = Raster::along_m};

const GpuProfile& h200() {
  static const GpuProfile profile = load_profile("h200");
  return profile;
}

GemmPrediction predict(const GemmProblem& problem, const GemmVariant& variant,
                       int ctas_per_sm = 1) {
  const GemmLaunch launch = gemm_launch_on_gpu(problem, variant, ctas_per_sm, h200());
  return predict_gemm_time(problem, variant, launch, simulate_gemm_l2(launch, h200().l2_policy()),
                           h200());
}

TEST(GemmTime, ProductsOfTheBusiestSm) {
  // 256 tiles on 132 SMs: two rounds of 64 k-blocks of 1024 clocks, a third longer.
  const GemmPrediction prediction = predict({.m = 4096, .n = 2048, .k = 4096}, kVariant);
  EXPECT_NEAR(prediction.matrix_us, 2 * 64 * 1024 * 1.27 / h200().clock_mhz, 1e-9);
  EXPECT_GT(prediction.time_us, prediction.matrix_us);
}

TEST(GemmTime, NarrowTilesWaitForSharedMemory) {
  GemmVariant narrow = kVariant;
  narrow.tile_m = 64;
  narrow.tile_n = 16;
  narrow.consumers = 1;
  // Four products of 8 clocks read 10,240 bytes, and the copy engine writes as many.
  const GemmPrediction prediction = predict({.m = 64, .n = 16, .k = 64}, narrow);
  EXPECT_NEAR(prediction.matrix_us, 2 * 10240 / 128.0 / h200().clock_mhz, 1e-9);
}

TEST(GemmTime, PingPongHidesAllEpiloguesButTheLast) {
  const GemmProblem problem{.m = 4096, .n = 4096, .k = 512};
  GemmVariant turns = kVariant;
  turns.mainloop = GemmMainloop::pingpong;
  turns.tile_n = 128;
  GemmVariant together = turns;
  together.mainloop = GemmMainloop::cooperative;
  // 1024 tiles on 132 SMs are 8 rounds.
  EXPECT_NEAR(predict(problem, together).epilogue_us, 8 * predict(problem, turns).epilogue_us,
              1e-9);
}

TEST(GemmTime, EpiloguesThatLastLongerThanProductsAreNotHidden) {
  GemmVariant turns = kVariant;
  turns.mainloop = GemmMainloop::pingpong;
  turns.tile_n = 128;
  const auto epilogue_us = [&](int k) {
    return predict({.m = 4096, .n = 4096, .k = k}, turns).epilogue_us;
  };
  EXPECT_EQ(epilogue_us(512), epilogue_us(1024));
  EXPECT_GT(epilogue_us(32), 1.5 * epilogue_us(512));
}

TEST(GemmTime, AnSmTakesInWhatOthersOfItsClusterLoadForIt) {
  GemmVariant narrow = kVariant;
  narrow.tile_m = 64;
  narrow.tile_n = 48;
  narrow.consumers = 1;
  narrow.stages = 12;
  narrow.cluster_n = 4;
  // 14,336 bytes of a k-block at 64 a clock, longer than the least step.
  const GemmPrediction prediction = predict({.m = 320, .n = 960, .k = 64 * 1000}, narrow);
  EXPECT_GT(prediction.time_us, 1000 * 14336 / 64.0 / h200().clock_mhz);
}

TEST(GemmTime, WarpgroupsStoreOddRowsTogether) {
  GemmProblem odd{.m = 6093, .n = 437, .k = 64, .alignment_bytes = 2};
  GemmVariant three = kVariant;
  three.tile_m = 192;
  three.tile_n = 128;
  three.consumers = 3;
  GemmVariant turns = three;
  turns.mainloop = GemmMainloop::pingpong;
  turns.consumers = 2;
  turns.tile_m = 128;
  EXPECT_LT(predict(odd, three).epilogue_us, 0.5 * predict(odd, turns).epilogue_us);
}

TEST(GemmTime, AClusterLoadsLess) {
  const GemmProblem problem{.m = 2048, .n = 4096, .k = 4096};
  GemmVariant cluster = kVariant;
  cluster.cluster_m = 2;
  EXPECT_LT(predict(problem, cluster).l2_us, predict(problem, kVariant).l2_us);
}

TEST(GemmTime, SplittingFillsTheGpuAndCostsASum) {
  const GemmProblem problem{.m = 128, .n = 2048, .k = 16384};
  GemmVariant split = kVariant;
  split.splits = 8;
  const GemmPrediction whole = predict(problem, kVariant);
  const GemmPrediction parts = predict(problem, split);
  EXPECT_EQ(whole.split_us, 0.0);
  EXPECT_GT(parts.split_us, 1.0);
  EXPECT_NEAR(parts.matrix_us, whole.matrix_us / 8, 1e-9);
  EXPECT_LT(parts.time_us, whole.time_us);
}

TEST(GemmTime, RowsThatStartInsideOfALineOfL2CostMore) {
  const auto l2_us = [](int k) {
    return predict({.m = 4096, .n = 4096, .k = k}, kVariant).l2_us / k;
  };
  EXPECT_NEAR(l2_us(8192 + 64) / l2_us(8192), 1.0, 0.01);
  EXPECT_NEAR(l2_us(8192 + 32) / l2_us(8192), 1.2, 0.02);
  EXPECT_NEAR(l2_us(8192 + 16) / l2_us(8192), 1.5, 0.03);
  EXPECT_NEAR(l2_us(8192 + 8) / l2_us(8192), 2.2, 0.05);
}

TEST(GemmTime, OddRowsAreCopiedToWholeLinesBefore) {
  GemmProblem problem{.m = 4096, .n = 2048, .k = 4096 + 8};
  const GemmPrediction whole = predict({.m = 4096, .n = 2048, .k = 4096 + 64}, kVariant);
  problem.alignment_bytes = 2;
  const GemmPrediction odd = predict(problem, kVariant);
  const double copied = 2.0 * (4096 + 2048) * 4104;
  const double gb_per_s = h200().device.dram_gb_per_s * h200().dram_efficiency;
  EXPECT_EQ(whole.copy_us, 0.0);
  const double threads = 132 * 384;
  EXPECT_NEAR(odd.copy_us, 1.5 + 2 * copied / (1.2 * gb_per_s * 1e3) + 2 * copied / (103 * threads),
              1e-6);
  EXPECT_NEAR(odd.l2_us, whole.l2_us, 0.02 * whole.l2_us) << "then their pitch costs nothing";
  EXPECT_GT(odd.epilogue_us, whole.epilogue_us) << "threads store C";
}

TEST(GemmTime, PortableKernelsWaitForOddRows) {
  GemmProblem problem{.m = 4096, .n = 2048, .k = 4096};
  const GemmVariant portable{.tile_m = 128, .tile_n = 128, .tile_k = 32, .stages = 3};
  const double whole = predict(problem, portable).time_us;
  problem.alignment_bytes = 4;
  const double in_pieces = predict(problem, portable).time_us;
  EXPECT_GT(in_pieces, 1.2 * whole) << "each lane copies 16 bytes by fours";
  problem.alignment_bytes = 2;
  EXPECT_GT(predict(problem, portable).time_us, in_pieces);
}

TEST(GemmTime, FewStagesWaitForTheirLoads) {
  GemmVariant variant = kVariant;
  variant.tile_m = 64;
  variant.tile_n = 64;
  variant.consumers = 1;
  const GemmProblem narrow{.m = 16, .n = 4096, .k = 4096};
  variant.stages = 2;
  const double two = predict(narrow, variant).time_us;
  variant.stages = 8;
  EXPECT_GT(two, 64 * 0.8);
  EXPECT_LT(predict(narrow, variant).time_us, 0.5 * two);
}

TEST(GemmTime, ClustersOfFourAlongKFindFewerPlaces) {
  // 33 tiles: as many clusters as four of 132 SMs would be, and more than GPCs hold.
  const GemmProblem problem{.m = 128, .n = 33 * 256, .k = 8192};
  GemmVariant clusters = kVariant;
  clusters.persistence = Persistence::grid;
  clusters.cluster_k = 4;
  GemmProblem fewer = problem;
  fewer.n = 29 * 256;
  EXPECT_NEAR(predict(problem, clusters).matrix_us, 2 * predict(fewer, clusters).matrix_us, 1e-9);
}

TEST(GemmTime, ASumInSharedMemoryCostsLessThanOneInGlobalMemory) {
  const GemmProblem problem{.m = 512, .n = 2112, .k = 7168};
  GemmVariant split = kVariant;
  split.tile_n = 144;
  split.splits = 2;
  GemmVariant cluster = split;
  cluster.persistence = Persistence::grid;
  cluster.splits = 1;
  cluster.cluster_k = 2;
  EXPECT_NEAR(predict(problem, cluster).matrix_us, predict(problem, split).matrix_us, 1e-9);
  EXPECT_GT(predict(problem, cluster).split_us, 0.5);
  EXPECT_LT(predict(problem, cluster).split_us, predict(problem, split).split_us);
}

constexpr GemmVariant kPortable{.tile_m = 128,
                                .tile_n = 128,
                                .tile_k = 32,
                                .stages = 3,
                                .warps_m = 2,
                                .warps_n = 2,
                                .raster = Raster::along_n};

TEST(GemmTime, PortableProductsWaitForTheirShareOfSharedMemory) {
  // One tile; two rows and two columns of warps read A and B twice, cp.async writes them once.
  const GemmPrediction prediction = predict({.m = 128, .n = 128, .k = 320}, kPortable);
  const double products = 2.0 * 128 * 128 * 32 / main_loop_flop_per_clock(h200());
  const double smem = h200().kernel.smem_share * 3 * (128 + 128) * 32 * 2 / 128.0;
  const double clocks = products + smem;
  EXPECT_NEAR(prediction.matrix_us, 10 * clocks / h200().clock_mhz, 1e-9);
}

TEST(GemmTime, Fp8HasHalfTheBytesAndTwiceTheRate) {
  const GemmProblem bf16{.m = 4096, .n = 4096, .k = 4096};
  GemmProblem fp8 = bf16;
  fp8.dtype = DType::e4m3;
  GemmVariant wide = kVariant;
  wide.tile_k *= 2;
  EXPECT_NEAR(predict(fp8, wide).matrix_us, predict(bf16, kVariant).matrix_us / 2, 1e-9);
  EXPECT_LT(predict(fp8, wide).l2_us, 0.6 * predict(bf16, kVariant).l2_us);
  // Adding parts is hidden by the other consumer's products.
  fp8.accuracy = Accuracy::two_level;
  GemmVariant promoted = wide;
  promoted.tile_n = 128;
  promoted.promote_every = 128;
  GemmVariant alone = promoted;
  alone.consumers = 1;
  EXPECT_LT(predict(fp8, promoted).matrix_us, 0.9 * predict(fp8, alone).matrix_us);
}

TEST(GemmTime, CtasThatShareAnSmTakeTurns) {
  // 264 tiles: one round of two CTAs to each of 132 SMs, or two rounds of one.
  const GemmProblem problem{.m = 128 * 12, .n = 128 * 22, .k = 1024};
  EXPECT_NEAR(predict(problem, kPortable, 2).matrix_us, predict(problem, kPortable, 1).matrix_us,
              1e-9);
  EXPECT_LT(predict(problem, kPortable, 2).epilogue_us, predict(problem, kPortable, 1).epilogue_us);
  // Fewer tiles than SMs have none to share with.
  const GemmProblem small{.m = 1024, .n = 1024, .k = 1024};
  EXPECT_EQ(predict(small, kPortable, 2).time_us, predict(small, kPortable, 1).time_us);
}

TEST(GemmTime, WorkersBoundTheCtasOfAPersistentLaunch) {
  const GemmProblem problem{.m = 4096, .n = 4096, .k = 512};
  GemmVariant variant = kVariant;
  variant.workers = 66;
  EXPECT_NEAR(predict(problem, variant).matrix_us, predict(problem, kVariant).matrix_us * 8 / 4,
              1e-9)
      << "512 tiles are 8 rounds of 66 and 4 of 132";
}

TEST(GemmTime, OnlyHopperMergesRequests) {
  const GemmProblem problem{.m = 1024, .n = 1024, .k = 512};
  const auto l2_us = [&](int sm_arch) {
    GpuProfile profile = h200();
    profile.device.sm_arch = sm_arch;
    const GemmLaunch launch = gemm_launch_on_gpu(problem, kPortable, 1, profile);
    return predict_gemm_time(problem, kPortable, launch,
                             simulate_gemm_l2(launch, profile.l2_policy()), profile)
        .l2_us;
  };
  EXPECT_GT(l2_us(120), 1.3 * l2_us(90));
}

TEST(GemmTime, NeighboursThatShareMoreAskL2ForLess) {
  const GemmProblem problem{.m = 1024, .n = 1024, .k = 1024};
  const auto prediction = [&](int swizzle_stride) {
    GemmVariant variant = kVariant;
    variant.tile_m = 64;
    variant.tile_n = 128;
    variant.mainloop = GemmMainloop::pingpong;
    variant.cluster_n = 2;
    variant.raster = Raster::along_n;
    variant.swizzle_stride = swizzle_stride;
    return predict(problem, variant);
  };
  // 16 SMs share 4 rows and 4 columns of tiles instead of 2 and 8; an H200 took 5.7 and 6.3 us.
  EXPECT_LT(prediction(512).l2_us, 0.9 * prediction(0).l2_us);
  EXPECT_LT(prediction(512).time_us, prediction(0).time_us);
}

TEST(GemmTime, LatencyIsWhatTheOtherTermsLeave) {
  const GemmPrediction p = predict({.m = 4096, .n = 4096, .k = 4096}, kVariant);
  const double overlap =
      std::pow(std::pow(p.matrix_us, 4) + std::pow(p.l2_us, 4) + std::pow(p.dram_us, 4), 0.25);
  EXPECT_NEAR(p.latency_us, p.time_us - overlap, 1e-9);
}

/// A measured row of the tables.
struct Row {
  GemmProblem problem;
  GemmVariant variant;
  double measured_us = 0.0;
};

/// Reads "128x256x64 coop2 c21 s4 rg8 k2" or "64x112x64 coop1 c114 s4 rm1 grid": a third digit of
/// the cluster is along k.
GemmVariant read_variant(const std::string& name) {
  GemmVariant variant = kVariant;
  std::istringstream words(name);
  std::string word;
  words >> word;
  std::sscanf(word.c_str(), "%dx%dx%d", &variant.tile_m, &variant.tile_n, &variant.tile_k);
  words >> word;
  variant.mainloop = word.front() == 'p' ? GemmMainloop::pingpong : GemmMainloop::cooperative;
  variant.consumers = word.back() - '0';
  while (words >> word) {
    const int number =
        word.size() > 1 ? std::atoi(word.c_str() + (word.front() == 'r' ? 2 : 1)) : 0;
    switch (word.front()) {
      case 'c':
        variant.cluster_k = number > 99 ? number % 10 : 1;
        variant.cluster_n = number > 99 ? number / 10 % 10 : number % 10;
        variant.cluster_m = number > 99 ? number / 100 : number / 10;
        break;
      case 's':
        variant.stages = number;
        break;
      case 'k':
        variant.splits = number;
        break;
      case 'g':
        variant.persistence = Persistence::grid;
        break;
      case 'r':
        variant.raster = word[1] == 'm'   ? Raster::along_m
                         : word[1] == 'n' ? Raster::along_n
                         : word[1] == 'g' ? Raster::grouped
                         : word[1] == 's' ? Raster::serpentine
                                          : Raster::hilbert;
        variant.raster_group = std::max(1, number);
        break;
      default:
        ADD_FAILURE() << "unknown part " << word << " of " << name;
    }
  }
  return variant;
}

/// "| m = n = k | .. | swr us / p95 | variant |" or "| m | n x k | .. | us / p95 | .. | variant |".
std::optional<Row> read_row(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '|');) {
    cells.push_back(cell);
  }
  if (cells.size() != 9 || cells[8].find_first_of("123456789") != 1) {
    return std::nullopt;
  }
  Row row;
  row.problem.m = row.problem.n = row.problem.k = std::stoi(cells[1]);
  int n = 0;
  int k = 0;
  const bool projection = std::sscanf(cells[2].c_str(), " %d x %d", &n, &k) == 2;
  if (projection) {
    row.problem.n = n;
    row.problem.k = k;
  }
  row.measured_us = std::stod(cells[projection ? 5 : 7]);
  row.variant = read_variant(cells[8]);
  return row;
}

TEST(GemmTime, ErrorsOnTheMeasuredChoicesArePublishedAsComputed) {
  const std::string published = bytes_of(SWR_GEMM_DOC);
  std::istringstream lines(published);
  int rows = 0;
  int within_10_percent = 0;
  double sum = 0.0;
  double squares = 0.0;
  double worst = 0.0;
  for (std::string line; std::getline(lines, line);) {
    const auto row = read_row(line);
    if (!row) {
      continue;
    }
    const double ratio = predict(row->problem, row->variant).time_us / row->measured_us;
    const double error = std::abs(ratio - 1);
    squares += std::log(ratio) * std::log(ratio);
    ++rows;
    within_10_percent += error <= 0.10;
    sum += error;
    worst = std::max(worst, error);
  }
  ASSERT_EQ(rows, 49);
  char text[160];
  std::snprintf(text, sizeof text, "mean error %.1f %%, worst %.1f %%, within 10 %% in %d of %d",
                100 * sum / rows, 100 * worst, within_10_percent, rows);
  EXPECT_THAT(published, HasSubstr(text));
  EXPECT_NEAR(h200().prediction_error("gemm"), std::sqrt(squares / rows), 0.005);
  EXPECT_LT(sum / rows, 0.07);
  EXPECT_LT(worst, 0.25);
}

}  // namespace
}  // namespace swr
