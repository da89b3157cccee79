// SPDX-License-Identifier: MIT
// Every variant that the default space offers the GB10 and the A100 compiles without spills and
// fits. A sample of a fixed seed, because all of them take half an hour of two cores:
//   SWR_WHOLE_SPACE=1 kernel_compile_test
// Of architectures with the same instructions and limits one is compiled for: sm_121 stands for
// sm_120 too, and sm_89 for sm_86.
#include "operations/attention/space.h"
#include "tests/support/chips.h"
#include "tests/support/compile_once.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/generator.h>

namespace swr {
namespace {
constexpr std::array kHeadDims{64, 96, 128, 160, 192, 256};
constexpr std::size_t kSample = 32;

struct Offer {
  AttentionProblem problem;
  AttentionVariant variant;
};

/// One offer per kernel: variants that differ in launch-time choices share it.
std::vector<Offer> offers(const DeviceInfo& device, const Generator& generator) {
  std::map<std::string, Offer> by_source;
  for (const int head_dim : kHeadDims) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      for (const bool causal : {false, true}) {
        const AttentionProblem problem{.heads_q = 2,
                                       .heads_kv = 2,
                                       .seq_q = 1024,
                                       .seq_kv = 1024,
                                       .head_dim = head_dim,
                                       .dtype = dtype,
                                       .causal = causal};
        for (const Variant& variant : enumerate_space(problem, device, {}).variants) {
          by_source.emplace(generator.config_header(problem, variant),
                            Offer{problem, variant.as<AttentionVariant>()});
        }
      }
    }
  }
  std::vector<Offer> unique;
  for (const auto& [source, offer] : by_source) {
    unique.push_back(offer);
  }
  return unique;
}

std::vector<Offer> sample(std::vector<Offer> all) {
  std::shuffle(all.begin(), all.end(), std::mt19937(19));
  if (std::getenv("SWR_WHOLE_SPACE") == nullptr && all.size() > kSample) {
    all.resize(kSample);
  }
  return all;
}

class PortableSpace : public testing::TestWithParam<int> {};
std::string arch_name(const testing::TestParamInfo<int>& given) {
  return "sm_" + std::to_string(given.param);
}
INSTANTIATE_TEST_SUITE_P(Archs, PortableSpace, testing::Values(80, 121), arch_name);

TEST_P(PortableSpace, CompilesWithoutSpillsAndFits) {
  const DeviceInfo device = device_of(GetParam());
  const Generator generator({});
  const std::vector<Offer> chosen = sample(offers(device, generator));
  ASSERT_GE(chosen.size(), kSample);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  const auto report = [&](const Offer& offer, const std::string& what) {
    const std::lock_guard lock(mutex);
    ADD_FAILURE() << to_string(offer.problem) << " " << to_key(offer.variant) << ": " << what;
  };
  const auto compile = [&] {
    for (std::size_t i = next++; i < chosen.size(); i = next++) {
      if (i % 100 == 0) {
        std::printf("sm_%d: kernel %zu of %zu\n", GetParam(), i, chosen.size());
        std::fflush(stdout);
      }
      const auto& [problem, variant] = chosen[i];
      try {
        const CompiledKernel kernel = generator.compile(problem, variant, GetParam());
        if (const auto dropped = check_compiled(problem, variant, device, kernel.resources)) {
          report(chosen[i], dropped->constraint + ": " + dropped->reason);
        } else if (kernel.resources.spill_store_bytes > 0) {
          report(chosen[i], "spills, if no more than is borne");
        }
      } catch (const Error& error) {
        report(chosen[i], error.what());
      }
    }
  };
  std::vector<std::jthread> compilers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    compilers.emplace_back(compile);
  }
}

// The portable attention kernel compiles for every architecture and every value of every axis.

constexpr std::array kArchs{80, 89, 90, 100, 121};

AttentionProblem problem_of(int head_dim, DType dtype, bool causal, int alignment_bytes) {
  return {.heads_q = 2,
          .heads_kv = 1,
          .seq_q = 1000,
          .seq_kv = 1000,
          .head_dim = head_dim,
          .dtype = dtype,
          .causal = causal,
          .alignment_bytes = alignment_bytes};
}

/// A variant that fits every architecture at any head_dim.
AttentionVariant small_variant() { return {.tile_m = 64, .tile_n = 16, .warps = 4, .stages = 1}; }

const Generator& generator() {
  static const Generator instance = test::generator_compiling_once();
  return instance;
}

/// Compiles and reports what went wrong with the inputs in the message.
std::optional<CompiledKernel> compile(const AttentionProblem& problem,
                                      const AttentionVariant& variant, int sm_arch) {
  try {
    return generator().compile(problem, variant, sm_arch);
  } catch (const Error& error) {
    ADD_FAILURE() << to_string(problem) << " " << to_key(variant) << " sm_" << sm_arch << ": "
                  << error.what();
    return std::nullopt;
  }
}

class PortableKernel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Archs, PortableKernel, testing::ValuesIn(kArchs), arch_name);

/// For one problem on a chip and for the other on the next.
TEST_P(PortableKernel, CornersOfTheSpaceCompile) {
  const AttentionProblem plain = problem_of(64, DType::fp16, false, 16);
  const AttentionProblem other = problem_of(128, DType::bf16, true, 2);
  const AttentionVariant largest{.tile_m = 128,
                                 .tile_n = 128,
                                 .warps = 8,
                                 .stages = 1,
                                 .order = Order::sawtooth,
                                 .persistence = Persistence::persistent};
  const AttentionVariant deepest{.tile_m = 64,
                                 .tile_n = 32,
                                 .warps = 4,
                                 .stages = 4,
                                 .order = Order::sawtooth,
                                 .persistence = Persistence::pairs};
  const AttentionVariant smallest{.tile_m = 16, .tile_n = 16, .warps = 1, .stages = 1};
  bool is_plain = GetParam() % 2 == 0;
  for (const AttentionVariant& variant : {largest, deepest, smallest}) {
    const AttentionProblem& problem = is_plain ? plain : other;
    ASSERT_FALSE(check_constraints(problem, variant, device_of(GetParam())));
    compile(problem, variant, GetParam());
    is_plain = !is_plain;
  }
}

TEST(PortableKernelAxes, EveryValueOfEveryAxisCompiles) {
  const AttentionProblem problem = problem_of(64, DType::fp16, true, 16);
  std::vector<AttentionVariant> variants;
  for (const Tile& tile : family_spaces()[0].tiles_of(64, 121)) {
    variants.push_back({.tile_m = tile.tile_m, .tile_n = tile.tile_n, .warps = tile.warps});
  }
  for (const AxisDefaults& defaults : family_spaces()[0].axes) {
    const Axis* axis = find_axis(attention_operation(), defaults.axis);
    for (const std::string_view value : defaults.values) {
      Variant variant = small_variant();
      axis->set(variant, std::string(value));
      variants.push_back(variant.as<AttentionVariant>());
    }
  }
  AttentionVariant bank_conflicts = small_variant();
  bank_conflicts.smem_swizzle = false;
  variants.push_back(bank_conflicts);
  for (const AttentionVariant& variant : variants) {
    compile(problem, variant, 121);
  }
}

/// Panels of 64 columns and of 32, every depth, splits and packed heads; nothing spills. Chips of
/// data centres beside the H200 are asked for the widest heads, which need most registers.
TEST(PortableKernelTensorMaps, CompileForEveryChipThatHasThem) {
  for (const int sm_arch : {90, 100, 121}) {
    for (const int head_dim : {48, 64, 80, 96, 128, 160, 256}) {
      if (sm_arch == 100 && head_dim < 128) {
        continue;
      }
      AttentionVariant variant{.tile_m = 64, .tile_n = 32, .warps = 4, .stages = 1};
      variant.stages = head_dim <= 128 ? 2 : 1;
      variant.persistence = head_dim % 64 == 0 ? Persistence::persistent : Persistence::grid;
      variant.kv_splits = head_dim == 128 ? 2 : 1;
      variant.pack_gqa = head_dim == 128;
      variant.kv_copy = KvCopy::tma;
      const auto kernel = compile(problem_of(head_dim, DType::bf16, true, 16), variant, sm_arch);
      ASSERT_TRUE(kernel);
      EXPECT_EQ(kernel->resources.spill_store_bytes, 0) << head_dim << " sm_" << sm_arch;
    }
  }
}

class PortableKernelHeadDim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(HeadDims, PortableKernelHeadDim,
                         testing::Values(16, 48, 64, 80, 96, 128, 256),
                         testing::PrintToStringParamName());

/// Every two of them meet.
TEST_P(PortableKernelHeadDim, CompilesForEveryTypeMaskAndAlignment) {
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      const int alignment_bytes = causal == (dtype == DType::bf16) ? 2 : 16;
      compile(problem_of(GetParam(), dtype, causal, alignment_bytes), small_variant(), 80);
    }
  }
}

TEST(PortableKernelCache, LaunchTimeChoicesShareOneCubin) {
  const AttentionProblem problem = problem_of(64, DType::fp16, false, 16);
  AttentionVariant launched_differently = small_variant();
  launched_differently.swizzle = AttentionSwizzle::head_fastest;
  const Generator each_anew({});
  const CompiledKernel first = each_anew.compile(problem, small_variant(), 90);
  const CompiledKernel second = each_anew.compile(problem, launched_differently, 90);
  EXPECT_EQ(first.source_digest, second.source_digest);
  EXPECT_EQ(first.cubin_digest, second.cubin_digest);
}

}  // namespace
}  // namespace swr
