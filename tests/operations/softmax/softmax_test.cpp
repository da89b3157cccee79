// SPDX-License-Identifier: MIT
// Softmax as an operation: its space, its kernels on three chips and its model.
#include "operations/softmax/softmax.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "model/streaming_predictor.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include <swr/generator.h>

namespace swr {
namespace {

const SoftmaxProblem kWide{.rows = 4096, .columns = 65536};
const SoftmaxProblem kNarrow{.rows = 4096, .columns = 1000};

TEST(SoftmaxSpace, HoldsEveryLegalChoiceOnce) {
  const SearchSpace narrow = enumerate_space(kNarrow, device_of(90), {});
  EXPECT_GT(narrow.variants.size(), 100U);
  bool any_held = false;
  for (const Variant& one : narrow.variants) {
    EXPECT_EQ(std::ranges::count(narrow.variants, one), 1) << to_key(one);
    any_held = any_held || one.as<SoftmaxVariant>().held > 0;
  }
  EXPECT_TRUE(any_held);
  const SoftmaxProblem unaligned{.rows = 8, .columns = 1000, .alignment_bytes = 2};
  for (const Variant& one : enumerate_space(unaligned, device_of(90), {}).variants) {
    EXPECT_EQ(one.as<SoftmaxVariant>().vector, 1);
  }
}

TEST(SoftmaxSpace, SaysWhyAVariantIsDropped) {
  const std::pair<SoftmaxVariant, std::string> dropped[] = {
      {{.threads_per_row = 48}, "whole_warps"},
      {{.tile_rows = 8, .threads_per_row = 256}, "threads"},
      {{.vector = 3}, "vector_width"},
      {{.threads_per_row = 32, .vector = 8, .held = 3}, "held_row"},
      {{.vector = 4, .stages = 2}, "ring"},
      {{.vector = 8, .held = 1, .order = Order::sawtooth}, "second_reading"},
  };
  for (const auto& [variant, constraint] : dropped) {
    EXPECT_EQ(dropped_by(kNarrow, variant, 90), constraint) << to_key(variant);
  }
  for (const SoftmaxProblem& problem : {kWide, kNarrow}) {
    EXPECT_EQ(dropped_by(problem, default_variant(Problem(problem), device_of(80)), 80), "");
  }
}

TEST(SoftmaxProblem, RefusesWhatNoKernelServes) {
  for (const SoftmaxProblem& wrong : {SoftmaxProblem{.rows = 0}, SoftmaxProblem{.columns = 1 << 25},
                                      SoftmaxProblem{.alignment_bytes = 12}}) {
    EXPECT_THROW(validate(Problem(wrong)), Error);
  }
  EXPECT_EQ(to_string(Problem(kNarrow)), "softmax rows4096 columns1000 fp16");
}

TEST(SoftmaxKernel, DrawnVariantsCompileCleanForThreeChips) {
  const Generator generator({});
  std::mt19937 random(5);
  for (const int sm_arch : {80, 90, 121}) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      const SoftmaxProblem problem{.rows = 4096, .columns = 5000, .dtype = dtype};
      std::vector<Variant> space = enumerate_space(problem, device_of(sm_arch), {}).variants;
      std::ranges::shuffle(space, random);
      space.resize(3);
      for (const Variant& variant : space) {
        const CompiledKernel kernel = generator.compile(problem, variant, sm_arch);
        EXPECT_EQ(kernel.entry, "swr_softmax");
        EXPECT_EQ(kernel.sm_arch, sm_arch);
        EXPECT_FALSE(check_compiled(problem, variant, device_of(sm_arch), kernel.resources))
            << to_key(variant);
      }
    }
  }
  EXPECT_GT(
      generator.compile_template("softmax/reference.cu", "swr_softmax_compare", 90).cubin.size(),
      0U);
}

TEST(SoftmaxModel, StackDistancesSayWhatASecondReadingMisses) {
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 100.0), 1.0);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 150.0), 0.5);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, false, 200.0), 0.0);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, true, 100.0), 0.5);
  EXPECT_DOUBLE_EQ(reread_miss_share(100.0, true, 200.0), 0.0);
}

TEST(SoftmaxModel, SawtoothSparesMissesAndHeldRowsASecondReading) {
  const auto model = softmax_operation().model()->make_predictor(load_profile("gb10"));
  const SoftmaxVariant cyclic{.tile_rows = 4, .vector = 8};
  SoftmaxVariant sawtooth = cyclic;
  sawtooth.order = Order::sawtooth;
  const auto predict = [&](const SoftmaxProblem& problem, const SoftmaxVariant& variant) {
    return model->predict(problem, variant, {}, 1);
  };
  const Prediction there = predict(kWide, cyclic);
  const Prediction back = predict(kWide, sawtooth);
  // 48 SMs with 4 rows of 128 KiB each against 24 MiB: the footprint just fits.
  EXPECT_EQ(there.compulsory_misses, 2LL * 4096 * 65536 * 2 / 32);
  EXPECT_GT(there.excess_misses, back.excess_misses);
  EXPECT_GT(there.time_us, back.time_us);
  const SoftmaxVariant held{.tile_rows = 4, .threads_per_row = 128, .vector = 8, .held = 1};
  const Prediction once = predict(kNarrow, held);
  EXPECT_EQ(once.excess_misses, 0);
  EXPECT_EQ(once.read_sectors, 4096 * 1000 * 2 / 32);
  EXPECT_LE(once.time_us, predict(kNarrow, cyclic).time_us);
}

}  // namespace
}  // namespace swr
