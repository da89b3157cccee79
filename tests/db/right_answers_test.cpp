// SPDX-License-Identifier: MIT
// Answers where nothing was tuned: what comes with swr, what the closed forms choose, and each
// wrong answer that was once given. experiments/right_answers publishes the tables that this
// prints.
#include "core/operation.h"
#include "core/recorded_space.h"
#include "db/lookup_table.h"
#include "generator/template_set.h"
#include "tests/db/fixtures.h"
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/lookup.h>

#include <iomanip>

namespace swr {
namespace {

AttentionProblem prefill(int seq, DType dtype = DType::bf16) {
  return {.batch = 2,
          .heads_q = 32,
          .heads_kv = 8,
          .seq_q = seq,
          .seq_kv = seq,
          .head_dim = 128,
          .dtype = dtype,
          .causal = true};
}

// Of a user who has tuned nothing.

TEST(RightAnswers, AFreshUserOfAnH200GetsWhatWasMeasuredOnOne) {
  const Answer answer = Lookup(LookupOptions{}).best(prefill(8192), profiled_device("h200"));
  EXPECT_EQ(answer.level, MatchLevel::exact);
  EXPECT_TRUE(answer.shipped);
  EXPECT_EQ(answer.result_id, 0);
  EXPECT_TRUE(answer.on_same_device);
  EXPECT_EQ(family_of(answer.variant), Family::hopper);
  EXPECT_GT(answer.time_us.value(), 0.0);
}

TEST(RightAnswers, AnH200IsNeverAnsweredWithThePortableKernelOfLongPrefill) {
  const DeviceInfo h200 = profiled_device("h200");
  for (const bool shipped : {true, false}) {
    LookupOptions options{.shipped = shipped};
    const Lookup lookup(options);
    for (const int seq : {1024, 3000, 5555, 40000}) {
      for (const int head_dim : {64, 80, 128, 192, 256}) {
        AttentionProblem problem = prefill(seq);
        problem.head_dim = head_dim;
        const Answer answer = lookup.best(problem, h200);
        EXPECT_EQ(family_of(answer.variant), Family::hopper) << to_string(problem);
        EXPECT_FALSE(check_constraints(problem, answer.variant, h200));
        EXPECT_NE(answer.level, MatchLevel::default_only);
      }
    }
  }
}

TEST(RightAnswers, WithoutWhatComesWithSwrTheClosedFormAnswers) {
  const Answer answer = Lookup(without_shipped()).best(prefill(8192), profiled_device("h200"));
  EXPECT_EQ(answer.level, MatchLevel::modelled);
  EXPECT_FALSE(answer.shipped);
  EXPECT_EQ(answer.stored_problem, prefill(8192));
  EXPECT_EQ(answer.result_id, 0);
  EXPECT_GT(answer.time_us.value(), 0.0);
}

/// On an H200 these took 44.8 and 56.1 us, what was answered before 65.0 and 68.7.
TEST(RightAnswers, UntunedProductsTakeTheTileThatTuningFound) {
  const auto tile_of = [](const GemmProblem& problem) {
    return Lookup(without_shipped())
        .best(problem, profiled_device("h200"))
        .variant.as<GemmVariant>();
  };
  const GemmVariant few = tile_of({.m = 680, .n = 2360, .k = 7208});
  EXPECT_EQ(std::tuple(few.tile_m, few.tile_n, few.cluster_m, few.splits),
            std::tuple(128, 224, 2, 2));
  const GemmVariant wide = tile_of({.m = 752, .n = 5168, .k = 5272, .layout = GemmLayout::nn});
  EXPECT_EQ(std::tuple(wide.tile_m, wide.tile_n, wide.cluster_m), std::tuple(128, 240, 2));
}

/// As measured on an H100: with few keys packed heads took 1.16 to 1.77 times as long.
TEST(RightAnswers, FewKeysOfGroupedHeadsAreNotWorthPacking) {
  const auto packs = [&](AttentionProblem problem) {
    const Answer answer = Lookup(without_shipped()).best(problem, profiled_device("h100"));
    return answer.variant.as<AttentionVariant>().pack_gqa;
  };
  for (const int seq : {1, 2, 4, 8, 12}) {
    AttentionProblem problem = prefill(seq);
    problem.batch = 1;
    EXPECT_FALSE(packs(problem)) << seq;
  }
  for (const int batch : {1, 4, 64}) {
    AttentionProblem decode = prefill(1);
    decode.batch = batch;
    decode.seq_kv = 8192;
    EXPECT_TRUE(packs(decode)) << batch;
  }
}

TEST(RightAnswers, WhatComesWithSwrIsOfAWarmL2AndTheBuiltInTemplates) {
  LookupOptions cold;
  cold.setting.l2_state = L2State::cold;
  EXPECT_FALSE(Lookup(cold).best(prefill(8192), profiled_device("h200")).shipped);
  LookupOptions overlaid;
  overlaid.setting.overlay_digest = "00ff";
  EXPECT_FALSE(Lookup(overlaid).best(prefill(8192), profiled_device("h200")).shipped);
}

TEST(RightAnswers, TheOther16BitTypeAnswersNearly) {
  const DeviceInfo h200 = profiled_device("h200");
  const Lookup lookup(LookupOptions{});
  const Answer answer = lookup.best(prefill(8192, DType::fp16), h200);
  EXPECT_EQ(answer.level, MatchLevel::nearest);
  EXPECT_EQ(answer.stored_problem, prefill(8192, DType::bf16));
  EXPECT_GT(answer.distance, 0.0);
  EXPECT_EQ(answer.time_us, lookup.best(prefill(8192), h200).time_us);
  const GemmProblem product{
      .m = 4096, .n = 4096, .k = 4096, .dtype = DType::fp16, .output = OutputType::fp16};
  EXPECT_EQ(lookup.best(product, h200).level, MatchLevel::nearest);
}

TEST(RightAnswers, OneQueryRowIsTheSameWorkWithAndWithoutTheMask) {
  const DeviceInfo h200 = profiled_device("h200");
  AttentionProblem decode{.batch = 8,
                          .heads_q = 32,
                          .heads_kv = 8,
                          .seq_q = 1,
                          .seq_kv = 8192,
                          .head_dim = 128,
                          .dtype = DType::bf16,
                          .causal = true};
  const Lookup lookup(LookupOptions{});
  const Answer masked = lookup.best(decode, h200);
  decode.causal = false;
  const Answer plain = lookup.best(decode, h200);
  EXPECT_EQ(masked.level, MatchLevel::exact);
  EXPECT_EQ(plain.level, MatchLevel::nearest);
  EXPECT_EQ(plain.variant, masked.variant);
}

TEST(RightAnswers, AnotherGpuOfTheArchitectureLearnsFromTheH200) {
  const Answer answer = Lookup(LookupOptions{}).best(prefill(8192), profiled_device("h100"));
  EXPECT_EQ(answer.level, MatchLevel::same_arch);
  EXPECT_TRUE(answer.shipped);
}

// Devices.

TEST(RightAnswers, AnIncompleteDeviceIsAnErrorThatNamesWhatIsMissing) {
  const DeviceInfo five_numbers{.name = "NVIDIA H200",
                                .sm_arch = 90,
                                .sm_count = 132,
                                .l2_bytes = 62914560,
                                .dram_gb_per_s = 4814.304};
  for (const bool shipped : {true, false}) {
    LookupOptions options{.shipped = shipped};
    const Error error = error_of([&] { (void)Lookup(options).best(prefill(8000), five_numbers); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("smem_per_cta_bytes"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("profiled_device()"));
  }
}

TEST(RightAnswers, AProfiledDeviceIsComplete) {
  for (const char* id : {"a100", "gb10", "h100", "h200", "rtx4090", "rtx5090"}) {
    EXPECT_NO_THROW(require_described(profiled_device(id))) << id;
  }
}

// Below what the user has measured.

class OwnResults : public ::testing::Test {
 protected:
  void record(const Problem& problem, const VariantResult& result) {
    store_.record(run_, problem, profiled_device("h200"), result);
  }
  Answer ask(const Problem& problem) const {
    return Lookup(path_).best(problem, profiled_device("h200"));
  }

  TempDirectory directory_;
  std::filesystem::path path_ = directory_ / "tuned.db";
  Store store_{path_, Store::Mode::read_write};
  long long run_ = store_.begin_run(some_run());
};

TEST_F(OwnResults, StandAboveThoseThatComeWithSwr) {
  record(prefill(8192), measured(tile(64, 64), 5000.0));
  const Answer answer = ask(prefill(8192));
  EXPECT_EQ(answer.level, MatchLevel::exact);
  EXPECT_FALSE(answer.shipped);
  EXPECT_EQ(answer.variant, tile(64, 64));
  EXPECT_NE(answer.result_id, 0);
}

TEST_F(OwnResults, ThatFailedHideThoseThatComeWithSwr) {
  const Variant shipped = ask(prefill(8192)).variant;
  VariantResult failed = result_of(shipped);
  failed.state = ResultState::correctness;
  failed.outcome = Measurement{.counters_missing_because = "it failed"};
  record(prefill(8192), failed);
  const Answer answer = ask(prefill(8192));
  EXPECT_NE(answer.level, MatchLevel::exact);
  EXPECT_NE(answer.variant, shipped);
}

TEST_F(OwnResults, FarAwayLoseToNearOnesThatComeWithSwr) {
  AttentionProblem far = prefill(64);
  far.batch = 1;
  record(far, measured(tile(64, 64), 5.0));
  EXPECT_TRUE(ask(prefill(8192)).shipped);
  EXPECT_TRUE(ask(prefill(7000)).shipped);
  EXPECT_FALSE(ask(far).shipped);
}

TEST_F(OwnResults, NearOnesThatTheClosedFormCallsMuchWorseLoseToIt) {
  // A narrow tile in one stage, the best of a search that was restricted to it.
  record(prefill(2048), measured(AttentionVariant{.tile_m = 16, .tile_n = 16, .warps = 1}, 9000.0));
  const Answer answer =
      Lookup(path_, without_shipped()).best(prefill(2000), profiled_device("h200"));
  EXPECT_EQ(answer.level, MatchLevel::modelled);
  EXPECT_EQ(family_of(answer.variant), Family::hopper);
}

TEST_F(OwnResults, MoreThanHalfAnOctaveOffLoseToTheClosedFormWhereThatWasMeasured) {
  const AttentionVariant good{.family = Family::hopper,
                              .tile_m = 128,
                              .tile_n = 128,
                              .warps = 8,
                              .stages = 2,
                              .order = Order::sawtooth,
                              .persistence = Persistence::dynamic,
                              .mainloop = Mainloop::overlap};
  record(prefill(2048), measured(good, 100.0));
  store_.record(run_, prefill(2048), profiled_device("a100"), measured(tile(64, 64), 300.0));
  const Lookup lookup(path_, without_shipped());
  EXPECT_EQ(lookup.best(prefill(2560), profiled_device("h200")).variant, Variant(good));
  EXPECT_EQ(lookup.best(prefill(4096), profiled_device("h200")).level, MatchLevel::modelled);
  EXPECT_EQ(lookup.best(prefill(4096), profiled_device("a100")).level, MatchLevel::nearest);
}

// The recordings.

TEST(Shipped, EveryWinnerIsLegalToday) {
  ASSERT_GE(shipped_spaces().size(), 60U);
  for (const RecordedSpace& space : shipped_spaces()) {
    const Answer answer = Lookup(LookupOptions{}).best(space.problem, space.device);
    EXPECT_EQ(answer.level, MatchLevel::exact) << to_string(space.problem);
    EXPECT_TRUE(answer.shipped);
    EXPECT_DOUBLE_EQ(answer.time_us.value(), space.best_us());
  }
}

TEST(Shipped, IsOfTheTemplatesOfToday) {
  const std::string today = TemplateSet::built_in().digest();
  for (const RecordedSpace& space : shipped_spaces()) {
    ASSERT_EQ(space.origin.l2_state, "warm");
    ASSERT_EQ(space.origin.templates_digest.size(), today.size());
    if (space.origin.templates_digest != today) {
      GTEST_SKIP() << "shipped/h200.spaces is due to be measured anew: the templates are "
                   << today.substr(0, 12) << " and were "
                   << space.origin.templates_digest.substr(0, 12)
                   << "; on an H200 run scripts/measure_shipped";
    }
  }
}

// Closed forms.

AttentionProblem random_attention(std::mt19937& random) {
  const auto pick = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  const int heads_kv = pick(1, 2, 3, 8, 40);
  const auto length = [&] {
    return static_cast<int>(std::exp2(static_cast<double>(random() % 1700) / 100.0));
  };
  AttentionProblem problem{.batch = pick(1, 2, 7, 64, 500),
                           .heads_q = heads_kv * pick(1, 2, 4, 5, 16),
                           .heads_kv = heads_kv,
                           .seq_q = pick(1, 1, 2, 16, length(), length(), length()),
                           .seq_kv = length(),
                           .head_dim = 16 * static_cast<int>(1 + random() % 16),
                           .dtype = pick(DType::fp16, DType::bf16),
                           .causal = pick(false, true),
                           .alignment_bytes = pick(2, 4, 8, 16, 16, 16)};
  constexpr double kMostRows = 1 << 30;
  while (1.0 * problem.batch * problem.heads_q * std::max(problem.seq_q, problem.seq_kv) >
         kMostRows) {
    problem.batch = 1;
    problem.seq_q = (problem.seq_q + 1) / 2;
    problem.seq_kv = (problem.seq_kv + 1) / 2;
  }
  return problem;
}

GemmProblem random_gemm(std::mt19937& random) {
  const auto pick = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  const auto size = [&] {
    return static_cast<int>(std::exp2(static_cast<double>(random() % 1500) / 100.0));
  };
  return {.m = size(),
          .n = size(),
          .k = size(),
          .batch = pick(1, 1, 1, 3, 100),
          .dtype = pick(DType::fp16, DType::bf16),
          .output = pick(OutputType::fp16, OutputType::bf16, OutputType::fp32),
          .layout = pick(GemmLayout::nt, GemmLayout::nn, GemmLayout::tn),
          .reads_c = pick(false, true),
          .alignment_bytes = pick(4, 8, 16, 16, 16)};
}

TEST(ModelledVariant, IsLegalForEveryProblemOnEveryBuiltInDevice) {
  std::mt19937 random(25);
  const Lookup lookup(without_shipped());
  for (const char* id : {"a100", "gb10", "h100", "h200", "rtx4090", "rtx5090"}) {
    const DeviceInfo device = profiled_device(id);
    for (int i = 0; i < 400; ++i) {
      for (const Problem& problem :
           {Problem(random_attention(random)), Problem(random_gemm(random))}) {
        const Answer answer = lookup.best(problem, device);
        EXPECT_EQ(answer.level, MatchLevel::modelled);
        const auto broken = check_constraints(problem, answer.variant, device);
        ASSERT_FALSE(broken) << to_string(problem) << " on " << id << ": " << to_key(answer.variant)
                             << " " << broken->reason;
        ASSERT_TRUE(std::isfinite(answer.time_us.value()) && *answer.time_us > 0)
            << to_string(problem);
      }
    }
  }
}

TEST(ModelledVariant, IsLegalOnDevicesThatNobodyHasDescribed) {
  std::mt19937 random(26);
  const Lookup lookup(without_shipped());
  for (int i = 0; i < 200; ++i) {
    DeviceInfo device = profiled_device(random() % 2 == 0 ? "h200" : "gb10");
    device.sm_arch = std::array{80, 86, 89, 90, 100, 103, 120, 121}[random() % 8];
    device.sm_count = 1 + static_cast<int>(random() % 200);
    device.dram_gb_per_s = random() % 4 == 0 ? 0.0 : 100.0 + static_cast<double>(random() % 8000);
    device.smem_per_cta_bytes = 48 * 1024 + static_cast<int>(random() % (180 * 1024));
    device.smem_per_sm_bytes = device.smem_per_cta_bytes + 1024;
    const Problem problem = random_attention(random);
    const Problem product = random_gemm(random);
    EXPECT_FALSE(check_constraints(problem, lookup.best(problem, device).variant, device))
        << to_string(problem);
    EXPECT_FALSE(check_constraints(product, lookup.best(product, device).variant, device))
        << to_string(product);
  }
}

// Regrets on recorded shapes: the recorded time of what answers over the fastest, minus 1.

/// The fastest of those recorded that have the same tile, form and splits.
std::optional<double> tile_regret(const RecordedSpace& space, const Variant& variant) {
  std::optional<double> least;
  for (const VariantResult& result : space.results) {
    const bool same = result.state == ResultState::ok &&
                      family_of(result.variant) == family_of(variant) &&
                      space.problem.operation().tile_text(result.variant) ==
                          space.problem.operation().tile_text(variant) &&
                      space.problem.operation().is_split(result.variant) ==
                          space.problem.operation().is_split(variant);
    if (same) {
      const double lost = result.time_us() / space.best_us() - 1.0;
      least = least ? std::min(*least, lost) : lost;
    }
  }
  return least;
}

std::string percent(const std::optional<double>& share) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  return share ? (out << 100 * *share << " %", out.str()) : "-";
}

/// Geometric mean of 1 + regret, less 1.
double mean_of(const std::vector<double>& regrets) {
  double sum = 0.0;
  for (const double one : regrets) {
    sum += std::log1p(one);
  }
  return std::expm1(sum / static_cast<double>(std::max<std::size_t>(1, regrets.size())));
}

struct Judged {
  std::vector<double> exact;  ///< Regrets where the very variant was recorded.
  std::vector<double> tile;   ///< Of its tile elsewhere.
  std::size_t unknown = 0;

  void add(const RecordedSpace& space, const Variant& variant) {
    if (const auto lost = regret(space, variant)) {
      exact.push_back(*lost);
    } else if (const auto of_tile = tile_regret(space, variant)) {
      tile.push_back(*of_tile);
    } else {
      ++unknown;
    }
  }
  void print(const char* name) const {
    std::cout << name << ": " << exact.size() << " recorded, mean regret "
              << percent(mean_of(exact)) << ", worst "
              << percent(exact.empty() ? 0.0 : *std::ranges::max_element(exact)) << "; "
              << tile.size() << " whose tile was recorded, mean " << percent(mean_of(tile))
              << ", worst " << percent(tile.empty() ? 0.0 : *std::ranges::max_element(tile)) << "; "
              << unknown << " not recorded\n";
  }
};

TEST(Regret, OfShippedShapesThatAreLeftOut) {
  Judged near;
  Judged modelled;
  std::cout
      << "| left out | answer | from | distance | regret | of its tile | closed form | regret "
         "| of its tile |\n";
  for (const RecordedSpace& space : shipped_spaces()) {
    std::vector<RecordedSpace> others = shipped_spaces();
    std::erase_if(others, [&](const auto& other) { return other.problem == space.problem; });
    const LookupTable table(lookup_records_of(others));
    const Answer answer = table.best(space.problem, space.device);
    const Answer form = LookupTable({}).best(space.problem, space.device);
    std::cout << "| " << to_string(space.problem) << " | " << to_string(answer.level) << " | "
              << (answer.level == MatchLevel::modelled ? "" : to_string(answer.stored_problem))
              << " | " << std::setprecision(2) << answer.distance << " | "
              << percent(regret(space, answer.variant)) << " | "
              << percent(tile_regret(space, answer.variant)) << " | "
              << form.variant.operation().description(form.variant) << " | "
              << percent(regret(space, form.variant)) << " | "
              << percent(tile_regret(space, form.variant)) << " |\n";
    near.add(space, answer.variant);
    modelled.add(space, form.variant);
  }
  near.print("left out");
  modelled.print("closed form alone");
  EXPECT_LT(mean_of(near.exact), 0.08);
}

/// What is lost by the variant that the closed form calls the fastest of those recorded; printed
/// with expected over recorded time.
double regret_of_closed_form(const RecordedSpace& space) {
  const VariantResult* chosen = nullptr;
  double least_us = 0.0;
  for (const VariantResult& result : space.results) {
    const auto quick =
        space.problem.operation().quick_time_us(space.problem, result.variant, space.device);
    if (result.state == ResultState::ok && (chosen == nullptr || *quick < least_us)) {
      chosen = &result;
      least_us = *quick;
    }
  }
  const double lost = chosen->time_us() / space.best_us() - 1.0;
  std::cout << "| " << to_string(space.problem) << " | "
            << chosen->variant.operation().description(chosen->variant) << " | " << percent(lost)
            << " | " << std::setprecision(2) << least_us / chosen->time_us() << " |\n";
  return lost;
}

/// Between families and operations, over shapes drawn for another question.
TEST(Regret, OfTheClosedFormOverShapesThatWereAsked) {
  std::vector<double> regrets;
  for (const RecordedSpace& space : read_recorded_spaces(SWR_ANSWER_RECORDINGS)) {
    regrets.push_back(regret_of_closed_form(space));
  }
  std::cout << regrets.size() << " spaces, mean regret " << percent(mean_of(regrets)) << "\n";
  EXPECT_LT(mean_of(regrets), 0.08);
}

/// Over whole spaces of the portable family.
TEST(Regret, OfTheClosedFormOverRecordedSpaces) {
  std::vector<double> regrets;
  for (const char* file : {SWR_RECORDINGS, SWR_DRAWN_RECORDINGS}) {
    for (const RecordedSpace& space : read_recorded_spaces(file)) {
      if (space.results.size() >= 100) {
        regrets.push_back(regret_of_closed_form(space));
      }
    }
  }
  std::cout << regrets.size() << " spaces, mean regret " << percent(mean_of(regrets)) << "\n";
  EXPECT_LT(mean_of(regrets), 0.25);
}

}  // namespace
}  // namespace swr
