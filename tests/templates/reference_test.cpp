// SPDX-License-Identifier: MIT
// Kernels for checks and for calibration compile.
#include "tests/support/compile_once.h"
#include "tests/support/test.h"
#include <swr/generator.h>

namespace swr {
namespace {
struct ReferenceEntry {
  const char* path;
  const char* entry;
};

class ReferenceTemplate : public ::testing::TestWithParam<int> {};

TEST_P(ReferenceTemplate, CompilesWithoutSpills) {
  const Generator generator = test::generator_compiling_once();
  for (const auto& [path, entry] :
       {ReferenceEntry{"reference/attention_reference.cu", "swr_attention_reference"},
        ReferenceEntry{"reference/random_fill.cu", "swr_random_fill"},
        ReferenceEntry{"reference/compare.cu", "swr_compare_output"},
        ReferenceEntry{"reference/compare.cu", "swr_compare_lse"},
        ReferenceEntry{"reference/compare.cu", "swr_count_disturbed"},
        ReferenceEntry{"reference/gemm_reference.cu", "swr_gemm_reference"},
        ReferenceEntry{"reference/gemm_reference.cu", "swr_binary_fill"},
        ReferenceEntry{"reference/gemm_reference.cu", "swr_gemm_compare"},
        ReferenceEntry{"reference/shake_placement.cu", "swr_shake_placement"}}) {
    const CompiledKernel kernel = generator.compile_template(path, entry, GetParam());
    EXPECT_FALSE(kernel.cubin.empty()) << entry;
    EXPECT_EQ(kernel.resources.spill_store_bytes, 0) << entry;
    EXPECT_GT(kernel.resources.registers_per_thread, 0) << entry;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, ReferenceTemplate, ::testing::Values(80, 86, 90, 121),
                         [](const auto& arch) { return "sm_" + std::to_string(arch.param); });

class CalibrationTemplate : public ::testing::TestWithParam<int> {};

TEST_P(CalibrationTemplate, CompilesWithoutSpills) {
  const Generator generator = test::generator_compiling_once();
  for (const char* entry : {"swr_fma_rate", "swr_exp2_rate", "swr_mma_rate"}) {
    const auto kernel = generator.compile_template("calibration/rates.cu", entry, GetParam());
    EXPECT_EQ(kernel.resources.spill_store_bytes, 0) << entry;
    EXPECT_GT(kernel.resources.registers_per_thread, 0) << entry;
  }
  for (const char* entry :
       {"swr_sweep", "swr_stream", "swr_link", "swr_chase", "swr_atomic_latency"}) {
    const auto kernel = generator.compile_template("calibration/memory.cu", entry, GetParam());
    EXPECT_EQ(kernel.resources.spill_store_bytes, 0) << entry;
  }
}

TEST(ReadingTemplate, CompilesWithoutSpills) {
  const auto kernel = Generator{GeneratorOptions{}}.compile_template("calibration/read_once.cu",
                                                                     "swr_read_once", 90);
  EXPECT_EQ(kernel.resources.spill_store_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, CalibrationTemplate, ::testing::Values(80, 90, 121),
                         [](const auto& arch) { return "sm_" + std::to_string(arch.param); });

}  // namespace
}  // namespace swr
