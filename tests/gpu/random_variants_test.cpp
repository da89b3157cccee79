// SPDX-License-Identifier: MIT
// Random variants of both families on random problems against the reference, each launched twice:
// both outputs must be right, and alike to the bit. SWR_RANDOM_VARIANTS says how many variants
// (default 16), each on 40 problems; test i depends on i alone, so tests may be spread over
// processes.
#include "operations/attention/config.h"
#include "operations/attention/kernel.h"
#include "operations/attention/kv_split_memory.h"
#include "operations/attention/verifier.h"
#include "tests/gpu/download.h"
#include "tests/gpu/gpu_test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

namespace swr {
namespace {

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
