// SPDX-License-Identifier: MIT
#include "tests/gpu/gemm_case.h"

#include <swr/gemm_problem.h>

#include <cmath>
#include <span>
#include <vector>

namespace swr {
namespace {

/// Relative L2 error. Rounding to 8 (11) bits of significand leaves about 1.7e-3 (2.1e-4); fp32
/// sums of tensor cores are a little less exact than fp32 itself.
double error_bound(OutputType output) {
  switch (output) {
    case OutputType::fp16:
      return 4e-4;
    case OutputType::bf16:
      return 3e-3;
    case OutputType::fp32:
      return 1e-5;
  }
  return 0.0;
}

/// The kernel of a case with the memory its launches need.
class CaseKernel {
 public:
  CaseKernel(const GemmCase& given, const GpuBench& bench)
      : given_(given),
        stream_(bench.stream),
        compiled_(std::visit(
            [&](const auto& one) {
              return bench.generator.compile_configured(gemm_operation(), family_of(one),
                                                        config_header(one), bench.device.sm_arch);
            },
            given.config)),
        kernel_(compiled_, given.config, given.workers) {}

  void launch(GemmParams params) {
    params.raster = given_.raster;
    params.raster_group = given_.raster_group;
    params.swizzle_stride = given_.swizzle_stride;
    params.splits = given_.splits;
    const auto [partials_bytes, arrival_words] = std::visit(
        [&](const auto& one) {
          return std::pair(one.partials_bytes(params), one.arrival_words(params));
        },
        given_.config);
    if (partials_.size_bytes() == 0) {
      partials_ = DeviceBuffer(static_cast<std::size_t>(partials_bytes) + 16);
      partials_.fill(0xff, stream_);
      arrivals_ = DeviceBuffer(static_cast<std::size_t>(arrival_words) * 4 + 16);
      arrivals_.fill(0, stream_);
    }
    // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
    params.partials = reinterpret_cast<float*>(partials_.address());
    params.arrivals = reinterpret_cast<unsigned*>(arrivals_.address());
    // NOLINTEND(performance-no-int-to-ptr)
    kernel_.launch(params, stream_.handle());
    stream_.synchronize();
  }

 private:
  const GemmCase& given_;
  const Stream& stream_;
  CompiledKernel compiled_;
  GemmKernel kernel_;
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
};

std::vector<std::byte> bytes_of(const DeviceBuffer& memory) {
  std::vector<std::byte> bytes(memory.size_bytes());
  memory.download(bytes);
  return bytes;
}

}  // namespace

void GemmTest::expect_match(const GemmCase& given) {
  const Stream& stream = bench().stream;
  const int smem_bytes = std::visit([](const auto& one) { return one.smem_bytes(); }, given.config);
  if (smem_bytes > bench().device.smem_per_cta_bytes) {
    GTEST_SKIP() << smem_bytes << " bytes of shared memory do not fit this GPU";
  }
  CaseKernel kernel(given, bench());
  // A C of fp32 that is read holds values no sum of which is exact.
  if (!given.problem.reads_c || given.problem.output != OutputType::fp32) {
    const GemmBuffers exact(given.problem, bench().gemm_kernels(), stream, GemmInputs::binary,
                            given.alpha, given.beta);
    kernel.launch(exact.params());
    EXPECT_EQ(exact.compare(stream).different_elements, 0.0) << to_string(given.problem);
    EXPECT_EQ(exact.disturbed_words(stream), 0U);
  }
  const GemmBuffers random(given.problem, bench().gemm_kernels(), stream, GemmInputs::random,
                           given.alpha, given.beta);
  kernel.launch(random.params());
  const std::vector<std::byte> first = bytes_of(random.c_memory());
  const reference::GemmComparison comparison = random.compare(stream);
  EXPECT_LT(std::sqrt(comparison.error_squared / comparison.expected_squared),
            error_bound(given.problem.output))
      << to_string(given.problem);
  EXPECT_EQ(random.disturbed_words(stream), 0U);
  if (!given.problem.reads_c) {
    kernel.launch(random.params());
    EXPECT_EQ(bytes_of(random.c_memory()), first) << "two launches differ";
  }
}

}  // namespace swr
