// SPDX-License-Identifier: MIT
// The GPU reference against float64 on the CPU, and the random inputs both read.
#include "operations/attention/config.h"
#include "operations/attention/workload.h"
#include "tests/gpu/download.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attention.h"
#include "tests/support/attention_reference.h"
#include "tests/support/float16.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

namespace swr {
namespace {

struct ReferenceCase {
  std::string name;
  AttentionProblem problem;
  MemoryOrder order = MemoryOrder::bhsd;
};

/// How GoogleTest shows the parameter.
[[maybe_unused]] void PrintTo(const ReferenceCase& given, std::ostream* stream) {
  *stream << to_string(given.problem);
}

AttentionProblem shape(int seq_q, int seq_kv, int head_dim, bool causal) {
  return {.seq_q = seq_q, .seq_kv = seq_kv, .head_dim = head_dim, .causal = causal};
}

AttentionProblem with_heads(AttentionProblem problem, int batch, int heads_q, int heads_kv) {
  problem.batch = batch;
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  return problem;
}

AttentionProblem with_type(AttentionProblem problem, DType dtype, int alignment_bytes) {
  problem.dtype = dtype;
  problem.alignment_bytes = alignment_bytes;
  return problem;
}

std::vector<ReferenceCase> reference_cases() {
  return {
      {"one_row_one_key", shape(1, 1, 16, false)},
      {"ragged", shape(65, 129, 64, false)},
      {"ragged_bf16", with_type(shape(33, 31, 80, false), DType::bf16, 16)},
      {"causal_square", shape(100, 100, 64, true)},
      {"causal_more_keys", shape(17, 150, 48, true)},
      {"causal_rows_that_see_nothing", shape(150, 17, 48, true)},
      {"causal_decode", shape(1, 200, 128, true)},
      {"last_row_and_key_of_a_tile", shape(128, 128, 128, true)},
      {"first_row_and_key_of_a_tile", shape(129, 129, 192, true)},
      {"several_tiles", with_type(shape(300, 700, 96, true), DType::bf16, 16)},
      {"tiles_that_see_nothing", shape(400, 17, 64, true)},
      {"widest_head", with_type(shape(40, 70, 256, true), DType::bf16, 16)},
      {"grouped_heads", with_heads(shape(40, 50, 32, true), 2, 6, 2)},
      {"one_kv_head", with_heads(shape(40, 50, 32, false), 3, 4, 1)},
      {"sequence_major", with_heads(shape(50, 60, 64, true), 2, 4, 2), MemoryOrder::bshd},
      {"unaligned", with_type(with_heads(shape(50, 60, 96, false), 2, 2, 2), DType::fp16, 2)},
      {"unaligned_sequence_major",
       with_type(with_heads(shape(50, 60, 160, true), 2, 4, 2), DType::bf16, 4), MemoryOrder::bshd},
  };
}

emulation::AttentionOutputs expected_outputs(const AttentionProblem& problem,
                                             const ProblemBuffers& buffers) {
  const auto values = [&](const GuardedTensor& tensor) { return download(tensor, problem.dtype); };
  return emulation::attention(case_of(problem), {.q = values(buffers.q()),
                                                 .k = values(buffers.k()),
                                                 .v = values(buffers.v()),
                                                 .d_o = {},
                                                 .d_lse = {}});
}

class Reference : public GpuTest, public ::testing::WithParamInterface<ReferenceCase> {};

TEST_P(Reference, MatchesFloat64OnTheCpu) {
  const ReferenceCase& given = GetParam();
  const ProblemBuffers buffers(given.problem, bench().kernels, bench().stream, 7, given.order);
  const Verifier verifier(bench().kernels, buffers, bench().stream);
  const emulation::AttentionOutputs expected = expected_outputs(given.problem, buffers);
  const std::vector<double> output = download_fp32(verifier.reference_output());
  ASSERT_EQ(output.size(), expected.o.size());
  EXPECT_LT(relative_error(output, expected.o), 1e-5);
  const std::vector<double> lse = download_fp32(verifier.reference_lse());
  ASSERT_EQ(lse.size(), expected.lse.size());
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (std::isinf(expected.lse[row])) {
      EXPECT_EQ(lse[row], expected.lse[row]) << "row " << row;
    } else {
      EXPECT_NEAR(lse[row], expected.lse[row], 1e-4) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reference, ::testing::ValuesIn(reference_cases()),
                         [](const auto& given) { return given.param.name; });

class RandomInputs : public GpuTest {};

TEST_F(RandomInputs, AreNormallyDistributed) {
  const AttentionProblem problem = shape(4096, 16, 64, false);
  const ProblemBuffers buffers(problem, bench().kernels, bench().stream, 3);
  bench().stream.synchronize();
  const std::vector<double> values = download(buffers.q(), DType::fp16);
  double sum = 0.0;
  double squares = 0.0;
  double fourth_powers = 0.0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    fourth_powers += value * value * value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.02);
  EXPECT_NEAR(fourth_powers / count, 3.0, 0.1);
}

TEST_F(RandomInputs, DependOnTheSeedAndNotOnStrides) {
  AttentionProblem problem = with_heads(shape(20, 30, 48, false), 2, 4, 2);
  const ProblemBuffers dense(problem, bench().kernels, bench().stream, 3);
  const ProblemBuffers other_seed(problem, bench().kernels, bench().stream, 4);
  problem.alignment_bytes = 2;
  const ProblemBuffers strided(problem, bench().kernels, bench().stream, 3, MemoryOrder::bshd);
  bench().stream.synchronize();
  const std::vector<double> values = download(dense.k(), DType::fp16);
  EXPECT_EQ(values, download(strided.k(), DType::fp16));
  EXPECT_NE(values, download(other_seed.k(), DType::fp16));
  EXPECT_NE(values, download(dense.v(), DType::fp16));
}

// NaN and infinities in Q, K and V have the effect that PyTorch's safe softmax gives them, and no
// other.

struct NonfiniteCase {
  std::string name;
  DType dtype;
  bool causal;
  AttentionVariant variant;
};

/// How GoogleTest shows the parameter.
[[maybe_unused]] void PrintTo(const NonfiniteCase& given, std::ostream* stream) {
  *stream << to_key(given.variant);
}

std::vector<NonfiniteCase> cases() {
  std::vector<AttentionVariant> variants{
      {.tile_m = 64, .tile_n = 32, .warps = 4, .stages = 2},
      {.tile_m = 64, .tile_n = 32, .warps = 4, .stages = 2, .kv_splits = 4}};
  for (const Mainloop mainloop :
       {Mainloop::plain, Mainloop::mutex, Mainloop::overlap, Mainloop::overlap_ordered}) {
    for (const int eighths : {0, 4}) {
      variants.push_back({.family = Family::hopper,
                          .tile_m = 128,
                          .tile_n = 64,
                          .warps = 8,
                          .stages = 2,
                          .mainloop = mainloop,
                          .exp2_fma_eighths = eighths});
    }
  }
  std::vector<NonfiniteCase> cases;
  for (const AttentionVariant& variant : variants) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      for (const bool causal : {false, true}) {
        std::string name(variant.family == Family::hopper ? to_string(variant.mainloop)
                                                          : to_string(variant.family));
        name += variant.kv_splits > 1 ? "_splits_" + std::to_string(variant.kv_splits) : "";
        name += "_fma_" + std::to_string(variant.exp2_fma_eighths);
        name += "_" + std::string(to_string(dtype)) + (causal ? "_causal" : "");
        cases.push_back({std::move(name), dtype, causal, variant});
      }
    }
  }
  return cases;
}

/// Overwrites one element of a row, of all rows where `row` is negative.
void overwrite(const GuardedTensor& tensor, int row, int column, std::uint16_t bits) {
  std::vector<std::uint16_t> words(tensor.memory().size_bytes() / 2);
  tensor.memory().download(std::as_writable_bytes(std::span(words)));
  const auto& strides = tensor.layout().strides;
  for (int i = 0; i < tensor.shape().seq; ++i) {
    if (row < 0 || i == row) {
      const auto element =
          static_cast<long long>(tensor.offset_bytes() / 2) + i * strides.seq + column;
      words[static_cast<std::size_t>(element)] = bits;
    }
  }
  tensor.memory().upload(std::as_bytes(std::span(words)));
}

class NonfiniteInputs : public GpuTest, public ::testing::WithParamInterface<NonfiniteCase> {
 protected:
  NonfiniteInputs() : problem_(problem_of(GetParam())) {}

  /// One head, three key tiles, the last one partly filled.
  static AttentionProblem problem_of(const NonfiniteCase& given) {
    return {.seq_q = 150, .seq_kv = 170, .dtype = given.dtype, .causal = given.causal};
  }

  ProblemBuffers random_inputs() {
    ProblemBuffers buffers(problem_, bench().kernels, bench().stream, 23);
    bench().stream.synchronize();
    return buffers;
  }

  void expect_match(const ProblemBuffers& buffers) {
    const AttentionVariant& variant = GetParam().variant;
    const CompiledKernel& compiled = bench().compile(problem_, variant);
    const Occupancy resident = occupancy(compiled.resources, problem_, variant, bench().device);
    const AttentionLaunchPlan plan =
        launch_plan(problem_, variant, bench().device.sm_count, resident.ctas_per_sm);
    const AttentionKernel kernel(compiled, plan);
    const KvSplitMemory splits(plan, buffers.params(true), bench().stream);
    kernel.launch(splits.of_launch(buffers.params(true)), bench().stream.handle());
    bench().stream.synchronize();
    const DType dtype = problem_.dtype;
    const emulation::AttentionOutputs expected = expected_outputs(problem_, buffers);
    expect_near(download(buffers.o(), dtype), expected.o);
  }

 private:
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    int wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const bool alike = std::isnan(expected[i])   ? std::isnan(actual[i])
                         : std::isinf(expected[i]) ? actual[i] == expected[i]
                                                   : std::abs(actual[i] - expected[i]) < 0.03;
      if (!alike && ++wrong <= 3) {
        ADD_FAILURE() << "row " << i / 64 << ", column " << i % 64 << ": " << actual[i]
                      << " instead of " << expected[i];
      }
    }
    EXPECT_EQ(wrong, 0);
  }

 protected:
  AttentionProblem problem_;
  Special special_ = special(problem_.dtype);
};

TEST_P(NonfiniteInputs, NaNInQReachesItsRow) {
  for (const int row : {0, 70, 149}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), row, 9, special_.nan);
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, NaNInKReachesTheRowsThatSeeIt) {
  for (const int key : {0, 100, 169}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.k(), key, 5, special_.nan);
    expect_match(buffers);
  }
}

/// Rows that do not see the key but share its tile multiply it by 0, as all rows do in PyTorch's
/// math path.
TEST_P(NonfiniteInputs, NaNAndInfinityInVReachTheirColumn) {
  if (GetParam().causal) {
    GTEST_SKIP() << "which rows multiply a hidden key by 0 depends on the tile";
  }
  for (const std::uint16_t bits : {special_.nan, special_.plus_infinity, special_.minus_infinity}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.v(), 100, 7, bits);
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, ScoresOfMinusInfinityCountAsHidden) {
  std::vector<int> first_tile;
  for (int key = 0; key < 64; ++key) {
    first_tile.push_back(key);
  }
  for (const std::vector<int>& keys : {std::vector{0}, {100}, {169}, first_tile, {-1}}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), -1, 3, special_.one);
    for (const int key : keys) {
      overwrite(buffers.k(), key, 3, special_.minus_infinity);
    }
    expect_match(buffers);
  }
}

TEST_P(NonfiniteInputs, AScoreOfPlusInfinityMakesItsRowNaN) {
  for (const int key : {0, 100, 169}) {
    const ProblemBuffers buffers = random_inputs();
    overwrite(buffers.q(), -1, 3, special_.one);
    overwrite(buffers.k(), key, 3, special_.plus_infinity);
    expect_match(buffers);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, NonfiniteInputs, ::testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.name; });

// Random variants of both families on random problems against the reference, each launched twice:
// both outputs must be right, and alike to the bit. SWR_RANDOM_VARIANTS says how many variants
// (default 16), each on 40 problems; test i depends on i alone, so tests may be spread over
// processes.

constexpr int kProblemsPerVariant = 40;

int variant_count() {
  constexpr int kUsual = 16;
  const char* const wanted = std::getenv("SWR_RANDOM_VARIANTS");
  return wanted == nullptr ? kUsual : std::max(1, std::atoi(wanted));
}

/// What is drawn from one seed.
class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<unsigned>(seed)) {}

  int between(int low, int high) { return low + static_cast<int>(random_() % (high - low + 1)); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }

  /// What a kernel is compiled for; lengths and heads, here such that no variant is refused for
  /// them, follow in a_problem().
  AttentionProblem kind() {
    AttentionProblem kind{.heads_q = 2, .heads_kv = 1, .seq_q = 1, .seq_kv = 1024};
    kind.head_dim = chance(60) ? one_of({64, 96, 128, 160, 192, 256}) : 16 * between(1, 16);
    kind.dtype = one_of({DType::fp16, DType::bf16});
    kind.causal = chance(50);
    kind.alignment_bytes = chance(70) ? 16 : one_of({2, 4, 8});
    return kind;
  }

  AttentionProblem a_problem(AttentionProblem kind, const AttentionVariant& variant) {
    const auto length = [&] { return chance(25) ? between(1, 40) : between(1, 900); };
    kind.batch = between(1, 3);
    kind.heads_kv = between(1, 3);
    kind.heads_q = kind.heads_kv * (variant.pack_gqa ? one_of({2, 3, 8}) : one_of({1, 1, 2, 4}));
    kind.seq_q = length();
    kind.seq_kv = chance(40) ? kind.seq_q : length();
    if (variant.kv_splits > 1) {
      kind.seq_kv = std::max(kind.seq_kv, variant.tile_n + 1);  // Two tiles.
    }
    return kind;
  }

  AttentionVariant variant() {
    AttentionVariant variant = chance(65) ? hopper() : portable();
    variant.tile_n = 16 * between(1, 12);
    variant.stages = between(1, 4);
    variant.order = one_of({Order::cyclic, Order::sawtooth, Order::right_to_left});
    variant.persistence = one_of({Persistence::grid, Persistence::persistent, Persistence::pairs,
                                  Persistence::snake, Persistence::dynamic});
    return variant;
  }

  /// What a launch chooses: the mapping of tiles, and workers from few to twice the SMs.
  AttentionVariant launch_of(AttentionVariant variant, const AttentionProblem& problem,
                             const DeviceInfo& device) {
    variant.swizzle = one_of({AttentionSwizzle::q_fastest, AttentionSwizzle::head_fastest,
                              AttentionSwizzle::head_sections});
    if (variant.swizzle == AttentionSwizzle::head_sections) {
      variant.section_heads = between(2, std::max(2, problem.batch * problem.heads_q - 1));
    }
    if (variant.kv_splits > 1) {
      variant.kv_splits = one_of({2, 3, between(2, 64)});
    }
    variant.longest_first = problem.causal && variant.family == Family::portable && chance(50);
    if (is_persistent(variant.persistence)) {
      variant.workers = one_of({0, 0, 5, device.sm_count, 2 * device.sm_count});
    }
    return variant;
  }

  unsigned long long input_seed() { return random_(); }

 private:
  AttentionVariant hopper() {
    AttentionVariant variant{.family = Family::hopper};
    variant.tile_m = one_of({64, 128, 192});
    variant.warps = variant.tile_m / 16;
    variant.mainloop =
        one_of({Mainloop::plain, Mainloop::mutex, Mainloop::overlap, Mainloop::overlap_ordered});
    variant.p_operand = one_of({POperand::registers, POperand::shared});
    variant.exp2_fma_eighths = chance(60) ? 0 : between(1, 4);
    variant.unroll = chance(75) ? 1 : 2;
    return variant;
  }

  AttentionVariant portable() {
    AttentionVariant variant;
    variant.warps = between(1, 8);
    variant.tile_m = 16 * variant.warps * between(1, 2);
    variant.smem_swizzle = chance(80);
    variant.kv_splits = chance(40) ? 2 : 1;
    variant.pack_gqa = chance(30);
    variant.kv_copy = chance(30) ? KvCopy::tma : KvCopy::cp_async;
    return variant;
  }

  std::mt19937 random_;
};

struct Candidate {
  AttentionProblem kind;
  AttentionVariant variant;
};

class RandomVariants : public GpuTest, public ::testing::WithParamInterface<int> {
 protected:
  /// Draws until no constraint, before or after compilation, forbids what was drawn.
  static Candidate draw_legal(Draw& draw) {
    for (;;) {
      const Candidate drawn{draw.kind(), draw.variant()};
      const DeviceInfo& device = bench().device;
      if (check_constraints(drawn.kind, drawn.variant, device)) {
        continue;
      }
      const KernelResources resources = bench().compile(drawn.kind, drawn.variant).resources;
      if (!check_compiled(drawn.kind, drawn.variant, device, resources)) {
        return drawn;
      }
    }
  }

  static AttentionVariant draw_legal_launch(Draw& draw, const AttentionVariant& variant,
                                            const AttentionProblem& problem) {
    for (;;) {
      const AttentionVariant launched = draw.launch_of(variant, problem, bench().device);
      if (!check_constraints(problem, launched, bench().device)) {
        return launched;
      }
    }
  }

  static void expect_right_and_repeatable(Draw& draw, const AttentionProblem& problem,
                                          const AttentionVariant& variant) {
    SCOPED_TRACE(to_string(problem) + " " + to_key(variant));
    const CompiledKernel& compiled = bench().compile(problem, variant);
    const int resident =
        occupancy(compiled.resources, problem, variant, bench().device).ctas_per_sm;
    const AttentionLaunchPlan plan =
        launch_plan(problem, variant, bench().device.sm_count, resident);
    const AttentionKernel kernel(compiled, plan);
    const ProblemBuffers buffers(problem, bench().kernels, bench().stream, draw.input_seed(),
                                 draw.one_of({MemoryOrder::bhsd, MemoryOrder::bshd}));
    const Verifier verifier(bench().kernels, buffers, bench().stream);
    const KvSplitMemory splits(plan, buffers.params(true), bench().stream);
    const bool with_lse = draw.chance(50);
    const auto output = [&] {
      kernel.launch(splits.of_launch(buffers.params(with_lse)), bench().stream.handle());
      bench().stream.synchronize();
      std::vector<double> values = download(buffers.o(), problem.dtype);
      // Poisons the output again once it is compared.
      EXPECT_EQ(verifier.check(with_lse).failure, "");
      return values;
    };
    const auto first = output();
    EXPECT_TRUE(output() == first) << "the second launch differs from the first";
  }
};

TEST_P(RandomVariants, MatchTheReferenceAndRepeat) {
  Draw draw(GetParam());
  const Candidate drawn = draw_legal(draw);
  for (int i = 0; i < kProblemsPerVariant && !HasFailure(); ++i) {
    const AttentionProblem problem = draw.a_problem(drawn.kind, drawn.variant);
    expect_right_and_repeatable(draw, problem, draw_legal_launch(draw, drawn.variant, problem));
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, RandomVariants, ::testing::Range(0, variant_count()));

}  // namespace
}  // namespace swr
