// SPDX-License-Identifier: MIT
#include "tests/gpu/gemm_case.h"

#include <swr/gemm_problem.h>

#include <cmath>
#include <span>
#include <vector>

namespace swr {
namespace {

/// Relative L2 error. Rounding to 8 (11, 4) bits of significand leaves about 1.7e-3
/// (2.1e-4, 2.6e-2); fp32 sums of tensor cores are a little less exact than fp32 itself, those of
/// FP8 keep 13 bits, and tanh.approx has 11.
double error_bound(const GemmProblem& problem) {
  constexpr double kOfOutput[] = {4e-4, 3e-3, 1e-5, 4e-2};
  return kOfOutput[static_cast<int>(problem.output)] + (is_fp8(problem.dtype) ? 6e-4 : 0.0) +
         (problem.activation == Activation::none ? 0.0 : 1e-3);
}

/// Sums of 0 and 1 are exact in C. A C of fp32 that is read holds values no sum of which is.
bool has_exact_results(const GemmProblem& p) {
  return (!p.reads_c || p.output != OutputType::fp32) && p.activation == Activation::none &&
         !p.gated && p.output != OutputType::fp8;
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

  void launch(const GemmBuffers& buffers) {
    GemmParams params = buffers.params();
    params.raster = given_.raster;
    params.raster_group = given_.raster_group;
    params.swizzle_stride = given_.swizzle_stride;
    params.splits = given_.splits;
    const auto [partials_bytes, arrival_words] = std::visit(
        [&](const auto& one) {
          return std::pair(workspace_bytes(one, params), one.arrival_words(params));
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
    kernel_.launch(params, stream_.handle(), LaunchOverlap::allowed, buffers.extras());
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

GemmBuffers buffers_of(const GemmCase& given, GpuBench& bench, GemmInputs inputs) {
  const bool is_grouped = given.problem.groups != GemmGroups::none;
  return {given.problem,
          is_grouped ? GroupPlaces(given.problem.groups, given.counts) : GroupPlaces(given.problem),
          bench.gemm_kernels(),
          bench.stream,
          inputs,
          given.alpha,
          given.beta,
          RowGap::one_unit,
          1,
          ExpectedC::computed};
}

std::vector<std::byte> bytes_of(const DeviceBuffer& memory) {
  std::vector<std::byte> bytes(memory.size_bytes());
  memory.download(bytes);
  return bytes;
}

}  // namespace

void GemmTest::expect_match(const GemmCase& given) {
  const Stream& stream = bench().stream;
  constexpr int kFirstFp8Arch = 89;
  if (bench().device.sm_arch < kFirstFp8Arch &&
      (is_fp8(given.problem.dtype) || given.problem.output == OutputType::fp8)) {
    GTEST_SKIP() << "FP8 begins with sm_89";
  }
  const int smem_bytes = std::visit([](const auto& one) { return one.smem_bytes(); }, given.config);
  if (smem_bytes > bench().device.smem_per_cta_bytes) {
    GTEST_SKIP() << smem_bytes << " bytes of shared memory do not fit this GPU";
  }
  CaseKernel kernel(given, bench());
  if (has_exact_results(given.problem)) {
    const GemmBuffers exact = buffers_of(given, bench(), GemmInputs::binary);
    kernel.launch(exact);
    EXPECT_EQ(exact.compare(stream).different_elements, 0.0) << to_string(given.problem);
    EXPECT_EQ(exact.disturbed_words(stream), 0U);
  }
  const GemmBuffers random = buffers_of(given, bench(), GemmInputs::random);
  kernel.launch(random);
  const std::vector<std::byte> first = bytes_of(random.c_memory());
  const reference::GemmComparison comparison = random.compare(stream);
  EXPECT_LE(std::sqrt(comparison.error_squared),
            error_bound(given.problem) * std::sqrt(comparison.expected_squared))
      << to_string(given.problem);
  EXPECT_EQ(random.disturbed_words(stream), 0U);
  if (!given.problem.reads_c) {
    kernel.launch(random);
    EXPECT_EQ(bytes_of(random.c_memory()), first) << "two launches differ";
  }
}

}  // namespace swr
