// SPDX-License-Identifier: MIT
#include "generator/compile_log.h"

#include <gtest/gtest.h>

namespace swr {
namespace {

// As NVRTC 13.0 writes it, functions in an order of its own.
constexpr std::string_view kSeveralFunctions = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'swr_attention' for 'sm_90'
ptxas info    : Function properties for swr_attention
ptxas         .     1208 bytes stack frame, 3216 bytes spill stores, 3340 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 1208 bytes cumulative stack size
ptxas info    : Compile time = 218.523 ms
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compile time = 14.399 ms
ptxas info    : Function properties for _Z6helperPf
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
)";

TEST(CompileLog, ReportsTheEntryAndNoOtherFunction) {
  const auto first = parse_resources(kSeveralFunctions, "swr_attention");
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, (KernelResources{.registers_per_thread = 32,
                                     .spill_store_bytes = 3216,
                                     .spill_load_bytes = 3340,
                                     .stack_bytes = 1208}));
  const auto second = parse_resources(kSeveralFunctions, "other");
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, (KernelResources{
                         .registers_per_thread = 40, .stack_bytes = 8, .static_smem_bytes = 256}));
}

TEST(CompileLog, CountsWarningsAboutWgmma) {
  constexpr std::string_view log =
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources in function 'swr_attention'\n"
      "ptxas info    : (C7519) Potential Performance Loss: warpgroup.arrive is injected\n"
      "ptxas info    : Compiling entry function 'swr_attention' for 'sm_90a'\n"
      "ptxas info    : (C7508) setmaxnreg ignored\n"
      "ptxas info    : Used 168 registers, used 8 barriers\n";
  const auto resources = parse_resources(log, "swr_attention");
  ASSERT_TRUE(resources);
  EXPECT_EQ(resources->wgmma_warnings, 2);  // C7519 is harmless.
}

TEST(CompileLog, ReadsTheFormOfOlderReleasesWithConstantBanks) {
  constexpr std::string_view log =
      "ptxas info    : 0 bytes gmem, 24 bytes cmem[4]\r\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\r\n"
      "ptxas info    : Function properties for helper\r\n"
      "    48 bytes stack frame, 44 bytes spill stores, 40 bytes spill loads\r\n"
      "ptxas info    : Function properties for k\r\n"
      "    0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\r\n"
      "ptxas info    : Used 255 registers, 49152 bytes smem, 472 bytes cmem[0]\r\n";
  const auto resources = parse_resources(log, "k");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, (KernelResources{.registers_per_thread = 255,
                                         .spill_store_bytes = 12,
                                         .spill_load_bytes = 16,
                                         .static_smem_bytes = 49152}));
}

TEST(CompileLog, DoesNotTakeSharedMemoryFromConstantMemory) {
  constexpr std::string_view log =
      "ptxas info    : Compiling entry function 'k' for 'sm_120'\n"
      "ptxas info    : Used 24 registers, 900 bytes cmem[0]";
  const auto resources = parse_resources(log, "k");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, KernelResources{.registers_per_thread = 24});
}

TEST(CompileLog, TellsAnEntryFromALongerName) {
  EXPECT_FALSE(parse_resources(kSeveralFunctions, "swr_attentio"));
  EXPECT_FALSE(parse_resources(kSeveralFunctions, "_Z6helperPf"));
}

TEST(CompileLog, IsEmptyWhenTheLogHoldsNoReport) {
  EXPECT_FALSE(parse_resources("", "k"));
  EXPECT_FALSE(parse_resources("Used 12 registers", "k"));
  EXPECT_FALSE(
      parse_resources("Compiling entry function 'k' for 'sm_80'\nUsed many registers", "k"));
  EXPECT_FALSE(parse_resources("Compiling entry function 'k", "k"));
}

TEST(CompileLog, SaysWhatToDoAndEachLineOnce) {
  EXPECT_EQ(failure_text("a.cu(1): warning: w\na.cu(3): error: bad\n  x;\n1 error\n"),
            "a.cu(3): error: bad\na.cu(1): warning: w\n  x;\n1 error\n");
  EXPECT_EQ(failure_text("a.cu(1): error: x\r\na.cu(2): error: y"),
            "a.cu(1): error: x\na.cu(2): error: y");
  EXPECT_EQ(failure_text("something\nelse"), "something\nelse");
  EXPECT_EQ(failure_text("only an error"), "only an error");
  EXPECT_EQ(failure_text(""), "");
  const std::string host = failure_text("k.cu(9): error: identifier \"cudaFree\" is undefined\nx");
  EXPECT_EQ(host.substr(0, host.find('\n')),
            "k.cu(9): error: identifier \"cudaFree\" is undefined; code for the host belongs "
            "between #ifndef swr_tune and #endif: swr compiles kernels alone");
  EXPECT_EQ(host.substr(host.find('\n') + 1), "x");
  EXPECT_NE(failure_text("k.cu(4): error: texture is not a template").find("cudaTextureObject_t"),
            std::string::npos);
  EXPECT_NE(failure_text("cccl/thrust/system/x.h(1): error: A function").find("block_reduce.cuh"),
            std::string::npos);
}

}  // namespace
}  // namespace swr
